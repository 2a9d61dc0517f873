package lakelog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import java.util.Collections;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Nil$;

/**
 * A table's changes as a stream of Spark, planned by Python and read by Spark's own Parquet reader where rows are in files as the
 * stream shows them.
 *
 * <p>Spark's compiler of generated code (Janino) compiles this file in the driver program; executors never need it, because tasks
 * get only classes of Spark. Python answers each call with a text of JSON; `lakelog/spark/java/stream_calls.py` is its side, and
 * describes the calls.
 */
public final class TableStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final Source source;
  private final Function calls;
  private PartitionReaderFactory files;
  private PartitionReaderFactory rows;
  private boolean readsRows;
  private String plannedFrom;
  private String plannedTo;
  private InputPartition[] planned;

  TableStream(Source source) {
    this.source = source;
    this.calls = (Function) source.opener.apply(source.schema.json());
  }

  public Offset initialOffset() {
    return new Position(field(call("initialOffset"), "offset").asText());
  }

  public Offset deserializeOffset(String json) {
    return new Position(json);
  }

  public ReadLimit getDefaultReadLimit() {
    JsonNode limit = call("limit");
    long value = field(limit, "value").asLong();
    String kind = field(limit, "kind").asText();
    if (kind.equals("files")) {
      return ReadLimit.maxFiles((int) Math.min(value, Integer.MAX_VALUE));
    } else if (kind.equals("bytes")) {
      return ReadLimit.maxBytes(value);
    } else if (kind.equals("rows")) {
      return ReadLimit.maxRows(value);
    }
    return ReadLimit.allAvailable();
  }

  public void prepareForTriggerAvailableNow() {
    call("prepareForTriggerAvailableNow");
  }

  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark gives a limit.");
  }

  public Offset latestOffset(Offset start, ReadLimit limit) {
    ObjectNode arguments = named("latestOffset");
    arguments.put("start", start.json());
    arguments.put("all", limit instanceof ReadAllAvailable);
    return new Position(field(call(arguments), "offset").asText());
  }

  public Offset reportLatestOffset() {
    JsonNode offset = field(call("reportLatestOffset"), "offset");
    return offset.isNull() ? null : new Position(offset.asText());
  }

  /** Spark asks again for each physical plan of a batch. */
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    if (planned == null || !start.json().equals(plannedFrom) || !end.json().equals(plannedTo)) {
      planned = plan(start.json(), end.json());
      plannedFrom = start.json();
      plannedTo = end.json();
    }
    return planned;
  }

  private InputPartition[] plan(String start, String end) {
    ObjectNode arguments = named("plan");
    arguments.put("start", start);
    arguments.put("end", end);
    JsonNode plan = call(arguments);
    readsRows = plan.has("rows");
    JsonNode tasks = field(plan, readsRows ? "rows" : "files");
    InputPartition[] partitions = new InputPartition[tasks.size()];
    for (int place = 0; place < partitions.length; place++) {
      JsonNode task = element(tasks, place);
      partitions[place] = readsRows
          ? (InputPartition) new PythonInputPartition(place, decode(task))
          : (InputPartition) new FilePartition(place, toFiles(task, plan));
    }
    return partitions;
  }

  public PartitionReaderFactory createReaderFactory() {
    if (readsRows && rows == null) {
      rows = source.readRows(decode(field(call("function"), "function")));
    } else if (!readsRows && files == null) {
      files = source.readFiles();
    }
    return readsRows ? rows : files;
  }

  public void commit(Offset end) {}

  public void stop() {
    call("stop");
  }

  public String toString() {
    return source.name();
  }

  private static ObjectNode named(String name) {
    ObjectNode made = JSON.createObjectNode();
    made.put("call", name);
    return made;
  }

  private JsonNode call(String name) {
    return call(named(name));
  }

  private JsonNode call(ObjectNode arguments) {
    JsonNode answer;
    try {
      answer = (JsonNode) JSON.readTree((String) calls.apply(arguments.toString()));
    } catch (java.io.IOException error) {
      throw new IllegalStateException(error);
    }
    if (answer.has("error")) {
      // Spark adds a code of its own, which belongs on another line.
      throw new IllegalStateException(field(answer, "error").asText() + "\n");
    }
    return answer;
  }

  // SUBTLE: Janino takes a method of Jackson's that returns a supertype for the one of the same name and arguments.
  private static JsonNode field(JsonNode node, String name) {
    return (JsonNode) node.get(name);
  }

  private static JsonNode element(JsonNode node, int place) {
    return (JsonNode) node.get(place);
  }

  private static byte[] decode(JsonNode text) {
    return Base64.getDecoder().decode(text.asText());
  }

  /** The files of one task, in the order in which their rows come. */
  private static PartitionedFile[] toFiles(JsonNode task, JsonNode plan) {
    String root = field(plan, "root").asText();
    PartitionedFile[] made = new PartitionedFile[task.size()];
    for (int place = 0; place < made.length; place++) {
      JsonNode file = element(task, place);
      JsonNode given = field(file, "constants");
      Object[] constants = new Object[given.size()];
      for (int column = 0; column < constants.length; column++) {
        constants[column] = Long.valueOf(element(given, column).asLong());
      }
      made[place] = new PartitionedFile(
          new GenericInternalRow(constants),
          SparkPath.fromPathString(root + field(file, "path").asText()),
          field(file, "start").asLong(),
          field(file, "length").asLong(),
          new String[0],
          0L,
          field(file, "size").asLong(),
          (scala.collection.immutable.Map) Map$.MODULE$.empty());
    }
    return made;
  }

  /** A place in the table's history, as a checkpoint stores it. */
  static final class Position extends Offset {
    private final String json;

    Position(String json) {
      this.json = json;
    }

    public String json() {
      return json;
    }
  }

  /** The table as Spark sees it: makes a stream for each query. */
  static final class Source implements SupportsRead, ScanBuilder, Scan {
    private final String name;
    private final SparkSession spark;
    private final StructType schema;
    private final StructType stored;
    private final StructType constants;
    private final CaseInsensitiveStringMap options;
    private final PythonDataSourceV2 python;
    private final Function opener;

    Source(
        String name,
        SparkSession spark,
        StructType schema,
        StructType stored,
        StructType constants,
        CaseInsensitiveStringMap options,
        PythonDataSourceV2 python,
        Function opener) {
      this.name = name;
      this.spark = spark;
      this.schema = schema;
      this.stored = stored;
      this.constants = constants;
      this.options = options;
      this.python = python;
      this.opener = opener;
    }

    public String name() {
      return name;
    }

    public StructType schema() {
      return schema;
    }

    public Set capabilities() {
      return Collections.singleton(TableCapability.MICRO_BATCH_READ);
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return this;
    }

    public Scan build() {
      return this;
    }

    public StructType readSchema() {
      return schema;
    }

    public String description() {
      return name;
    }

    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
      return new TableStream(this);
    }

    /** Spark's own reader of Parquet files, which adds the constants of each file as columns. */
    PartitionReaderFactory readFiles() {
      scala.collection.immutable.Seq none = (scala.collection.immutable.Seq) (Object) Nil$.MODULE$;
      InMemoryFileIndex index = new InMemoryFileIndex(
          spark,
          none,
          (scala.collection.immutable.Map) Map$.MODULE$.empty(),
          scala.Option.apply(null),
          NoopCache$.MODULE$,
          scala.Option.apply(new PartitionSpec(constants, none)),
          scala.Option.apply(null));
      StructType all = stored;
      for (int place = 0; place < constants.fields().length; place++) {
        all = all.add(constants.fields()[place]);
      }
      return new ParquetScanBuilder(spark, index, all, stored, options).build().toBatch().createReaderFactory();
    }

    /** A reader of rows that Python makes. */
    PartitionReaderFactory readRows(byte[] function) {
      return new PythonPartitionReaderFactory(python.source(), function, schema, scala.Option.apply(null), scala.Option.apply(null));
    }
  }

  /** Puts this stream into the place of a stream that Python would read row by row. Called by Python. */
  public static final class Replacer {
    /**
     * @param frame what Spark has loaded for `format("lakelog")`
     * @param name for plans and progress
     * @param schema the columns of the stream in JSON: those in files, then constants
     * @param stored the columns to read from files in JSON, with field ids
     * @param constants the columns that have one value in a file, in JSON
     * @param options of Spark's reader of Parquet files
     * @param opener makes the calls of one query from the JSON of a schema
     * @return null if it is not such a stream
     */
    public Dataset replace(
        Dataset frame, String name, String schema, String stored, String constants, java.util.Map options, Function opener) {
      LogicalPlan plan = frame.queryExecution().analyzed();
      if (!(plan instanceof StreamingRelationV2)) {
        return null;
      }
      StreamingRelationV2 relation = (StreamingRelationV2) plan;
      if (relation.source().isEmpty() || !(relation.source().get() instanceof PythonDataSourceV2)) {
        return null;
      }
      StructType columns = (StructType) DataType.fromJson(schema);
      Source source = new Source(
          name,
          (SparkSession) frame.sparkSession(),
          columns,
          (StructType) DataType.fromJson(stored),
          (StructType) DataType.fromJson(constants),
          new CaseInsensitiveStringMap(options),
          (PythonDataSourceV2) relation.source().get(),
          opener);
      Object[] arguments = new Object[relation.productArity()];
      for (int place = 0; place < arguments.length; place++) {
        arguments[place] = relation.productElement(place);
        if (arguments[place] == relation.table()) {
          arguments[place] = source;
        } else if (arguments[place] == relation.output()) {
          arguments[place] = DataTypeUtils.toAttributes(columns);
        }
      }
      return Dataset.ofRows((SparkSession) frame.sparkSession(), (LogicalPlan) relation.makeCopy(arguments));
    }
  }
}
