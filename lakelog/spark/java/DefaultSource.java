package lakelog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.function.BiFunction;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.internal.connector.SupportsPushDownCatalystFilters;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * `format("lakelog")` in classic sessions: Spark finds this class by the name of its package.
 *
 * <p>A read of a table's state becomes the plan that `lakelog.spark.read_table` would make, with the columns and conditions of the
 * query: Spark pushes them into a scan, Python plans it, and a rule of the optimizer puts the plan into its place. All else, which is
 * writes, streams and reads of changes, stays with the data source in Python that this class extends.
 *
 * <p>Spark's compiler of generated code (Janino) compiles this file in the driver program; executors never need it.
 */
public final class DefaultSource extends PythonDataSourceV2 {
  private JsonNode described;
  private StructType inferred;

  public UserDefinedPythonDataSource source() {
    return Driver.ofSession().python;
  }

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    JsonNode found = describe(options, null);
    inferred = found.has("schema") ? toSchema(found) : super.inferSchema(options);
    return inferred;
  }

  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    return new Source(this, (PythonTable) super.getTable(schema, partitioning, properties));
  }

  /** What Python knows of a read; without `schema` Python has to read the rows, too. */
  JsonNode describe(CaseInsensitiveStringMap options, StructType given) {
    if (described == null || (given != null && !given.equals(inferred))) {
      ObjectNode arguments = Driver.named("describe");
      arguments.set("options", Driver.toJson(options));
      if (given != null) {
        arguments.put("given", given.json());
      }
      described = Driver.ofSession().call(null, arguments);
    }
    return described;
  }

  static StructType toSchema(JsonNode found) {
    return (StructType) DataType.fromJson(Driver.field(found, "schema").asText());
  }

  /** Makes an installation known to a session and to those that are cloned from it. Called by Python. */
  public static final class Installer {
    public void install(SparkSession spark, String name, BiFunction calls, UserDefinedPythonDataSource python) {
      Driver.put(name, calls, python);
      ExperimentalMethods methods = spark.experimental();
      List rules = new ArrayList();
      for (Object rule : CollectionConverters.asJava(methods.extraOptimizations())) {
        if (!(rule instanceof Replacing)) {
          rules.add(rule);
        }
      }
      rules.add(new Replacing());
      methods.extraOptimizations_$eq(toSeq(rules));
    }

    public Query query(SparkSession spark, String text, String catalog, List databases) throws Exception {
      return new Query(spark, text, catalog, databases);
    }
  }

  /** The table of a read or a write, which Spark makes without telling them apart. */
  static final class Source implements SupportsRead, SupportsWrite {
    private final DefaultSource source;
    private final PythonTable python;

    Source(DefaultSource source, PythonTable python) {
      this.source = source;
      this.python = python;
    }

    public String name() {
      return python.name();
    }

    public StructType schema() {
      return python.schema();
    }

    public Set capabilities() {
      return python.capabilities();
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return source.describe(options, schema()).has("schema")
          ? (ScanBuilder) new StateScanBuilder(options, schema())
          : python.newScanBuilder(options);
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return python.newWriteBuilder(info);
    }
  }

  /** Collects the columns and conditions of a query. */
  static final class StateScanBuilder implements SupportsPushDownRequiredColumns, SupportsPushDownCatalystFilters {
    private final CaseInsensitiveStringMap options;
    private StructType columns;
    private final List conditions = new ArrayList();

    StateScanBuilder(CaseInsensitiveStringMap options, StructType columns) {
      this.options = options;
      this.columns = columns;
    }

    public void pruneColumns(StructType required) {
      columns = required;
    }

    /** Returns those that Spark must evaluate after the scan. */
    public Seq pushFilters(Seq filters) {
      List rest = new ArrayList();
      for (Object filter : CollectionConverters.asJava(filters)) {
        Expression condition = (Expression) filter;
        boolean isPlain = condition.deterministic() && !condition.containsPattern(TreePattern$.MODULE$.PYTHON_UDF());
        (isPlain ? conditions : rest).add(condition);
      }
      return toSeq(rest);
    }

    public Predicate[] pushedFilters() {
      return new Predicate[0];
    }

    public Scan build() {
      ArrayNode filters = Driver.JSON.createArrayNode();
      for (Object condition : conditions) {
        scala.Option known = DataSourceStrategy$.MODULE$.translateFilter((Expression) condition, true);
        if (known.isDefined()) {
          filters.add(Driver.toJson(known.get()));
        }
      }
      ObjectNode arguments = Driver.named("scan");
      JsonNode given = Driver.toJson(options);
      arguments.set("options", given);
      arguments.set("filters", filters);
      Map seen = Snapshots.ofQuery();
      Object snapshot = seen.get(given);
      if (snapshot != null) {
        arguments.put("snapshot", ((Long) snapshot).longValue());
      }
      Request request = new Request();
      JsonNode answer = Driver.ofSession().call(request, arguments);
      seen.put(given, Long.valueOf(Driver.field(answer, "snapshot").asLong()));
      return new StateScan(request, answer, columns, conditions);
    }
  }

  /** What each query has read: all reads of a table in one query show the same snapshot. */
  static final class Snapshots {
    private static final Map QUERIES = new WeakHashMap();

    static Map ofQuery() {
      scala.Option tracker = QueryPlanningTracker.get();
      if (tracker.isEmpty()) {
        return new HashMap();
      }
      synchronized (QUERIES) {
        Map seen = (Map) QUERIES.get(tracker.get());
        if (seen == null) {
          seen = new HashMap();
          QUERIES.put(tracker.get(), seen);
        }
        return seen;
      }
    }
  }

  /** Takes the rows of a scan from Python. */
  public static final class Request {
    final SparkSession spark = Driver.session();
    private LogicalPlan rows;

    public SparkSession session() {
      return spark;
    }

    public void answer(Dataset frame) {
      rows = frame.queryExecution().analyzed();
    }
  }

  /** A planned read of one state. It is never executed: `Replacing` puts its plan into its place. */
  static final class StateScan implements SupportsReportStatistics {
    private final SparkSession spark;
    private final LogicalPlan rows;
    private final JsonNode answer;
    private final StructType columns;
    private final List conditions;

    StateScan(Request request, JsonNode answer, StructType columns, List conditions) {
      this.spark = request.spark;
      this.rows = request.rows;
      this.answer = answer;
      this.columns = columns;
      this.conditions = conditions;
    }

    public StructType readSchema() {
      return columns;
    }

    public String description() {
      return "lakelog " + Driver.field(answer, "table").asText();
    }

    public Statistics estimateStatistics() {
      return new Size(Driver.field(answer, "bytes").asLong(), Driver.field(answer, "rows").asLong());
    }

    /** The rows of the conditions, with the attributes by which the query knows them. */
    LogicalPlan toPlan(Seq output) {
      Map wanted = new HashMap();
      for (Object condition : conditions) {
        for (Object attribute : CollectionConverters.asJava(((Expression) condition).references().toSeq())) {
          wanted.put(((Attribute) attribute).name(), attribute);
        }
      }
      for (Object attribute : CollectionConverters.asJava(output)) {
        wanted.put(((Attribute) attribute).name(), attribute);
      }
      List named = new ArrayList();
      for (Object found : CollectionConverters.asJava(rows.output())) {
        Attribute column = (Attribute) found;
        Attribute known = (Attribute) wanted.remove(column.name());
        if (known != null && !DataTypeUtils.sameType(column.dataType(), known.dataType())) {
          throw altered("column '" + column.name() + "' is " + column.dataType().simpleString() + " now");
        }
        named.add(known == null ? (NamedExpression) column : rename(column, known));
      }
      if (!wanted.isEmpty()) {
        throw altered("it has no column '" + wanted.keySet().iterator().next() + "' any more");
      }
      LogicalPlan plan = new Project(toSeq(named), rows);
      for (Object condition : conditions) {
        plan = new Filter((Expression) condition, plan);
      }
      plan = Dataset.ofRows(spark, new Project(output, plan)).queryExecution().optimizedPlan();
      // SUBTLE: the optimizer keeps the order of columns, but not their identities.
      List made = CollectionConverters.asJava(plan.output());
      List columns = new ArrayList();
      for (int place = 0; place < made.size(); place++) {
        columns.add(rename((Attribute) made.get(place), (Attribute) output.apply(place)));
      }
      return new Project(toSeq(columns), plan);
    }

    private RuntimeException altered(String change) {
      String table = Driver.field(answer, "table").asText();
      return Driver.error("Table " + table + " was altered after this DataFrame was made: " + change + ". Load it again.");
    }
  }

  private static NamedExpression rename(Attribute column, Attribute known) {
    if (column.exprId().equals(known.exprId())) {
      return column;
    }
    Seq none = (Seq) (Object) Nil$.MODULE$;
    return new Alias(column, known.name(), known.exprId(), none, scala.Option.apply(null), none);
  }

  static final class Size implements Statistics {
    private final long bytes;
    private final long rows;

    Size(long bytes, long rows) {
      this.bytes = bytes;
      this.rows = rows;
    }

    public OptionalLong sizeInBytes() {
      return OptionalLong.of(bytes);
    }

    public OptionalLong numRows() {
      return OptionalLong.of(rows);
    }
  }

  /** Puts the plan of each scan into its place, once Spark has pushed down all that it can. */
  static final class Replacing extends Rule {
    public TreeNode apply(TreeNode plan) {
      // The scan of a DELETE only names the table.
      return plan instanceof DeleteFromTable ? plan : plan.transformDown(new EachScan());
    }
  }

  static final class EachScan extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof DataSourceV2ScanRelation && ((DataSourceV2ScanRelation) node).scan() instanceof StateScan;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) node;
      return ((StateScan) relation.scan()).toPlan((Seq) relation.output());
    }
  }

  static Seq toSeq(List values) {
    return CollectionConverters.asScala(values).toSeq();
  }
}
