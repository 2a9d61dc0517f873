package lakelog;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import scala.Tuple3;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** A query in which `shop.orders` may be a table of lakelog, and all else is what it is for Spark. Called by Python. */
public final class Query {
  private final SparkSession spark;
  private final Set databases;
  private final Set tables = new HashSet();
  private final Dataset frame;

  /**
   * @param text a query of Spark's grammar
   * @param catalog the name of lakelog's catalog
   * @param databases those of lakelog
   */
  Query(SparkSession spark, String text, String catalog, List databases) throws Exception {
    this.spark = spark;
    this.databases = new HashSet(databases);
    LogicalPlan plan = spark.sessionState().sqlParser().parseQuery(text);
    frame = Dataset.ofRows(spark, name(plan, new Naming(catalog)));
  }

  public Dataset frame() {
    return frame;
  }

  /** Those tables of lakelog that it names, as `database.table`. */
  public List tables() {
    return new ArrayList(tables);
  }

  private static LogicalPlan name(LogicalPlan plan, Naming naming) {
    return (LogicalPlan) plan.transformDownWithSubqueries(naming);
  }

  /** Gives names of two parts whose first one is a database of lakelog its catalog as a third. */
  private final class Naming extends AbstractPartialFunction {
    private final String catalog;

    Naming(String catalog) {
      this.catalog = catalog;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof UnresolvedRelation || node instanceof RelationTimeTravel || node instanceof UnresolvedWith;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (node instanceof UnresolvedRelation) {
        return named((UnresolvedRelation) node);
      } else if (node instanceof RelationTimeTravel) {
        RelationTimeTravel past = (RelationTimeTravel) node;
        return new RelationTimeTravel(name(past.relation(), this), past.timestamp(), past.version());
      } else if (node instanceof UnresolvedWith) {
        UnresolvedWith with = (UnresolvedWith) node;
        List named = new ArrayList();
        for (Object each : CollectionConverters.asJava(with.cteRelations())) {
          Tuple3 relation = (Tuple3) each;
          named.add(new Tuple3(relation._1(), (SubqueryAlias) name((LogicalPlan) relation._2(), this), relation._3()));
        }
        return new UnresolvedWith((LogicalPlan) with.child(), toSeq(named), with.allowRecursion());
      }
      return otherwise.apply(node);
    }

    private UnresolvedRelation named(UnresolvedRelation relation) {
      List parts = CollectionConverters.asJava(relation.multipartIdentifier());
      if (parts.size() == 3 && parts.get(0).equals(catalog)) {
        tables.add(parts.get(1) + "." + parts.get(2));
      }
      if (parts.size() != 2 || !databases.contains(parts.get(0))) {
        return relation;
      }
      tables.add(parts.get(0) + "." + parts.get(1));
      Seq full = toSeq(Arrays.asList(new Object[] {catalog, parts.get(0), parts.get(1)}));
      UnresolvedRelation made = new UnresolvedRelation(full, relation.options(), relation.isStreaming());
      made.copyTagsFrom(relation);
      return made;
    }
  }

  private static Seq toSeq(List values) {
    return CollectionConverters.asScala(values).toSeq();
  }
}
