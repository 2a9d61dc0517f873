package lakelog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsDelete;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsOverwrite;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The databases and tables of a session's installation as a catalog of Spark: `spark.sql("SELECT * FROM lakelog.shop.orders")`.
 *
 * <p>Reads are those of `DefaultSource`; writes are `lakelog.spark.write`. `lakelog/spark/java/catalog_calls.py` answers its calls.
 */
public final class Catalog implements TableCatalog, SupportsNamespaces {
  private String name;

  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
  }

  public String name() {
    return name;
  }

  public Set capabilities() {
    return new HashSet(Arrays.asList(new Object[] {TableCatalogCapability.SUPPORT_TABLE_CONSTRAINT}));
  }

  public String[][] listNamespaces() {
    String[] names = texts(call(Driver.named("databases")), "names");
    String[][] found = new String[names.length][];
    for (int place = 0; place < names.length; place++) {
      found[place] = new String[] {names[place]};
    }
    return found;
  }

  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length == 0) {
      return listNamespaces();
    }
    loadNamespaceMetadata(namespace);
    return new String[0][];
  }

  public boolean namespaceExists(String[] namespace) {
    return namespace.length == 1 && Arrays.asList(texts(call(Driver.named("databases")), "names")).contains(namespace[0]);
  }

  public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    if (!namespaceExists(namespace)) {
      throw new NoSuchNamespaceException(namespace);
    }
    return new HashMap();
  }

  public void createNamespace(String[] namespace, Map metadata) throws NamespaceAlreadyExistsException {
    ObjectNode arguments = Driver.named("create database");
    arguments.put("name", only(namespace));
    arguments.put("comment", (String) metadata.get("comment"));
    if (!call(arguments).has("done")) {
      throw new NamespaceAlreadyExistsException(namespace);
    }
  }

  public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
    throw new UnsupportedOperationException("A database of lakelog has nothing to alter.");
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) {
    ObjectNode arguments = Driver.named("drop database");
    arguments.put("name", only(namespace));
    arguments.put("cascade", cascade);
    return call(arguments).has("done");
  }

  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    loadNamespaceMetadata(namespace);
    ObjectNode arguments = Driver.named("tables");
    arguments.put("database", only(namespace));
    String[] names = texts(call(arguments), "names");
    Identifier[] found = new Identifier[names.length];
    for (int place = 0; place < names.length; place++) {
      found[place] = Identifier.of(namespace, names[place]);
    }
    return found;
  }

  public Table loadTable(Identifier table) throws NoSuchTableException {
    return load(table, new HashMap());
  }

  public Table loadTable(Identifier table, String version) throws NoSuchTableException {
    Map options = new HashMap();
    options.put(version.matches("[0-9]+") ? "scan.snapshot-id" : "scan.tag-name", version);
    return load(table, options);
  }

  public Table loadTable(Identifier table, long timestampMicros) throws NoSuchTableException {
    Map options = new HashMap();
    options.put("scan.timestamp-millis", String.valueOf(Math.floorDiv(timestampMicros, 1000L)));
    return load(table, options);
  }

  private Table load(Identifier table, Map options) throws NoSuchTableException {
    if (table.namespace().length != 1) {
      throw new NoSuchTableException(table);
    }
    options.put("table", fullName(table));
    CaseInsensitiveStringMap all = new CaseInsensitiveStringMap(options);
    ObjectNode arguments = Driver.named("table");
    arguments.set("options", Driver.toJson(all));
    JsonNode found = call(arguments);
    if (!found.has("schema")) {
      throw new NoSuchTableException(table);
    }
    return new Named(name + "." + fullName(table), found, all);
  }

  public Table createTable(Identifier table, TableInfo info) throws TableAlreadyExistsException, NoSuchNamespaceException {
    ObjectNode arguments = Driver.named("create table");
    arguments.put("name", fullName(table));
    ArrayNode columns = arguments.putArray("columns");
    for (int place = 0; place < info.columns().length; place++) {
      Column column = info.columns()[place];
      ObjectNode made = columns.addObject();
      made.put("name", column.name());
      made.put("type", column.dataType().json());
      made.put("nullable", column.nullable());
      made.put("comment", column.comment());
    }
    ArrayNode partitions = arguments.putArray("partition_by");
    for (int place = 0; place < info.partitions().length; place++) {
      Transform partition = info.partitions()[place];
      partitions.add(partition.name().equals("identity") ? path(partition.references()[0]) : partition.describe());
    }
    for (int place = 0; place < info.constraints().length; place++) {
      Constraint constraint = info.constraints()[place];
      if (!(constraint instanceof PrimaryKey)) {
        throw new UnsupportedOperationException("Of constraints a table of lakelog has only a PRIMARY KEY.");
      }
      ArrayNode keys = arguments.putArray("primary_key");
      NamedReference[] names = ((PrimaryKey) constraint).columns();
      for (int key = 0; key < names.length; key++) {
        keys.add(path(names[key]));
      }
    }
    arguments.set("properties", Driver.toJson(new CaseInsensitiveStringMap(info.properties())));
    String refused = texts(call(arguments), "refused")[0];
    if (refused.equals("table")) {
      throw new TableAlreadyExistsException(table);
    } else if (refused.equals("database")) {
      throw new NoSuchNamespaceException(table.namespace());
    }
    try {
      return loadTable(table);
    } catch (NoSuchTableException error) {
      throw new IllegalStateException(error);
    }
  }

  public Table alterTable(Identifier table, TableChange[] changes) throws NoSuchTableException {
    ObjectNode arguments = Driver.named("alter table");
    arguments.put("name", fullName(table));
    ArrayNode given = arguments.putArray("changes");
    for (int place = 0; place < changes.length; place++) {
      describe(changes[place], given.addObject());
    }
    call(arguments);
    return loadTable(table);
  }

  private static void describe(TableChange change, ObjectNode made) {
    made.put("kind", change.getClass().getSimpleName());
    if (change instanceof TableChange.SetProperty) {
      made.put("property", ((TableChange.SetProperty) change).property());
      made.put("value", ((TableChange.SetProperty) change).value());
    } else if (change instanceof TableChange.RemoveProperty) {
      made.put("property", ((TableChange.RemoveProperty) change).property());
    }
    if (!(change instanceof TableChange.ColumnChange)) {
      return;
    }
    ArrayNode path = made.putArray("column");
    String[] names = ((TableChange.ColumnChange) change).fieldNames();
    for (int place = 0; place < names.length; place++) {
      path.add(names[place]);
    }
    if (change instanceof TableChange.AddColumn) {
      TableChange.AddColumn added = (TableChange.AddColumn) change;
      made.put("type", added.dataType().json());
      made.put("nullable", added.isNullable());
      made.put("comment", added.comment());
      made.put("default", added.defaultValue() == null ? null : String.valueOf(added.defaultValue().getValue()));
      describe(added.position(), made);
    } else if (change instanceof TableChange.RenameColumn) {
      made.put("name", ((TableChange.RenameColumn) change).newName());
    } else if (change instanceof TableChange.UpdateColumnType) {
      made.put("type", ((TableChange.UpdateColumnType) change).newDataType().json());
    } else if (change instanceof TableChange.UpdateColumnNullability) {
      made.put("nullable", ((TableChange.UpdateColumnNullability) change).nullable());
    } else if (change instanceof TableChange.UpdateColumnComment) {
      made.put("comment", ((TableChange.UpdateColumnComment) change).newComment());
    } else if (change instanceof TableChange.UpdateColumnPosition) {
      describe(((TableChange.UpdateColumnPosition) change).position(), made);
    }
  }

  private static void describe(TableChange.ColumnPosition position, ObjectNode made) {
    made.put("first", position instanceof TableChange.First);
    made.put("after", position instanceof TableChange.After ? ((TableChange.After) position).column() : null);
  }

  public boolean dropTable(Identifier table) {
    ObjectNode arguments = Driver.named("drop table");
    arguments.put("name", fullName(table));
    return call(arguments).has("done");
  }

  public void renameTable(Identifier from, Identifier to) {
    throw new UnsupportedOperationException("A table of lakelog cannot be renamed.");
  }

  private static JsonNode call(ObjectNode arguments) {
    return Driver.ofSession().call(null, arguments);
  }

  private static String fullName(Identifier table) {
    return only(table.namespace()) + "." + table.name();
  }

  private static String only(String[] namespace) {
    if (namespace.length != 1) {
      throw new IllegalArgumentException("A database of lakelog has a name of one part, not " + String.join(".", namespace) + ".");
    }
    return namespace[0];
  }

  private static String path(NamedReference column) {
    return String.join(".", column.fieldNames());
  }

  private static String[] texts(JsonNode answer, String name) {
    JsonNode given = Driver.field(answer, name);
    String[] found = new String[given.size()];
    for (int place = 0; place < found.length; place++) {
      found[place] = ((JsonNode) given.get(place)).asText();
    }
    return found;
  }

  /** A table by its name, at its newest snapshot or one that is given. */
  static final class Named implements SupportsRead, SupportsWrite, SupportsDelete {
    private final String name;
    private final JsonNode found;
    private final CaseInsensitiveStringMap options;

    Named(String name, JsonNode found, CaseInsensitiveStringMap options) {
      this.name = name;
      this.found = found;
      this.options = options;
    }

    public String name() {
      return name;
    }

    public StructType schema() {
      return DefaultSource.toSchema(found);
    }

    public Transform[] partitioning() {
      String[] names = texts(found, "partition_by");
      Transform[] made = new Transform[names.length];
      for (int place = 0; place < made.length; place++) {
        made[place] = Expressions.identity("`" + names[place].replace("`", "``") + "`");
      }
      return made;
    }

    public Map properties() {
      Map made = new HashMap();
      JsonNode given = Driver.field(found, "properties");
      for (Iterator names = given.fieldNames(); names.hasNext(); ) {
        String key = (String) names.next();
        made.put(key, Driver.field(given, key).asText());
      }
      return made;
    }

    public Set capabilities() {
      return new HashSet(Arrays.asList(new Object[] {
        TableCapability.BATCH_READ, TableCapability.V1_BATCH_WRITE, TableCapability.TRUNCATE, TableCapability.OVERWRITE_BY_FILTER
      }));
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
      Map all = new HashMap(options.asCaseSensitiveMap());
      all.putAll(given.asCaseSensitiveMap());
      DefaultSource source = new DefaultSource();
      source.setShortName("lakelog");
      SupportsRead read = (SupportsRead) source.getTable(schema(), partitioning(), all);
      return read.newScanBuilder(new CaseInsensitiveStringMap(all));
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      ObjectNode arguments = Driver.named("write");
      arguments.set("options", Driver.toJson(info.options()));
      arguments.put("table", options.get("table"));
      return new Insertion(arguments);
    }

    public void deleteWhere(Filter[] filters) {
      ObjectNode arguments = Driver.named("delete");
      arguments.put("table", options.get("table"));
      arguments.set("filters", Driver.toJson((Object) filters));
      call(arguments);
    }
  }

  /** A write by `lakelog.spark.write`, which Spark gives the rows of a query. */
  static final class Insertion implements SupportsOverwrite, V1Write, InsertableRelation {
    private final ObjectNode arguments;

    Insertion(ObjectNode arguments) {
      this.arguments = arguments;
    }

    public WriteBuilder overwrite(Filter[] filters) {
      arguments.set("overwritten", Driver.toJson((Object) filters));
      return this;
    }

    public Write build() {
      return this;
    }

    public InsertableRelation toInsertableRelation() {
      return this;
    }

    public void insert(org.apache.spark.sql.Dataset rows, boolean overwrite) {
      Driver.ofSession().call(new Rows((Dataset) rows), arguments);
    }
  }

  /** What Python writes. */
  public static final class Rows {
    private final Dataset frame;

    Rows(Dataset frame) {
      this.frame = frame;
    }

    public SparkSession session() {
      return (SparkSession) frame.sparkSession();
    }

    public Dataset frame() {
      return frame;
    }
  }
}
