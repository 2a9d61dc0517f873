package lakelog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.errors.QueryCompilationErrors;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import scala.Product;

/**
 * Calls Python in the driver program, for the session that is active. A call and its answer are texts of JSON;
 * `lakelog/spark/java/batch_calls.py` is Python's side, and describes the calls.
 */
public final class Driver {
  static final ObjectMapper JSON = new ObjectMapper();
  private static final String INSTALLATION = "spark.lakelog.source";
  private static final Map INSTALLED = new ConcurrentHashMap();

  private final BiFunction calls;
  final UserDefinedPythonDataSource python;

  private Driver(BiFunction calls, UserDefinedPythonDataSource python) {
    this.calls = calls;
    this.python = python;
  }

  static void put(String name, BiFunction calls, UserDefinedPythonDataSource python) {
    INSTALLED.put(name, new Driver(calls, python));
  }

  static SparkSession session() {
    return (SparkSession) org.apache.spark.sql.SparkSession.active();
  }

  static Driver ofSession() {
    Object found = INSTALLED.get(session().conf().get(INSTALLATION, ""));
    if (found == null) {
      throw error("lakelog is not installed in this session: call lakelog.spark.install(spark, target) first.");
    }
    return (Driver) found;
  }

  /**
   * @param target is called by Python, or null
   * @param arguments made by `named`
   */
  JsonNode call(Object target, ObjectNode arguments) {
    JsonNode answer;
    try {
      answer = (JsonNode) JSON.readTree((String) calls.apply(target, arguments.toString()));
    } catch (java.io.IOException error) {
      throw new IllegalStateException(error);
    }
    if (answer.has("error")) {
      throw error(field(answer, "error").asText());
    }
    return answer;
  }

  /** Throws an error as of a data source in Python, which is a checked exception that Spark's interfaces do not declare. */
  static RuntimeException error(String text) {
    Platform.throwException(QueryCompilationErrors.pythonDataSourceError("use", "lakelog", text));
    return null;
  }

  static ObjectNode named(String call) {
    ObjectNode made = JSON.createObjectNode();
    made.put("call", call);
    return made;
  }

  // SUBTLE: Janino takes a method of Jackson's that returns a supertype for the one of the same name and arguments.
  static JsonNode field(JsonNode node, String name) {
    return (JsonNode) node.get(name);
  }

  static JsonNode toJson(CaseInsensitiveStringMap options) {
    ObjectNode made = JSON.createObjectNode();
    for (Object entry : options.asCaseSensitiveMap().entrySet()) {
      made.put((String) ((Map.Entry) entry).getKey(), (String) ((Map.Entry) entry).getValue());
    }
    return made;
  }

  /** A filter is an array of its class and its arguments, a value an object of its class and its text. */
  static JsonNode toJson(Object value) {
    if (value instanceof Filter || value instanceof Object[]) {
      ArrayNode made = JSON.createArrayNode();
      if (value instanceof Filter) {
        made.add(value.getClass().getSimpleName().replace("$", ""));
      }
      Object[] parts = value instanceof Filter ? toArray((Product) value) : (Object[]) value;
      for (int place = 0; place < parts.length; place++) {
        made.add(toJson(parts[place]));
      }
      return made;
    }
    ObjectNode made = JSON.createObjectNode();
    Object plain = value instanceof java.sql.Timestamp ? ((java.sql.Timestamp) value).toInstant() : value;
    made.put("class", plain == null ? "Null" : plain.getClass().getSimpleName());
    made.put("text", String.valueOf(plain));
    return made;
  }

  private static Object[] toArray(Product product) {
    Object[] parts = new Object[product.productArity()];
    for (int place = 0; place < parts.length; place++) {
      parts[place] = product.productElement(place);
    }
    return parts;
  }
}
