// What YCSB itself generates, for the tests of our workload beside it: how often each of 100 records is chosen, how many operations of
// each kind the core workloads send, and how long scans are. Prints ycsb-keys.toml.
//
//   mvn dependency:copy -Dartifact=site.ycsb:core:0.17.0 -DoutputDirectory=.   # and its dependencies
//   javac -cp '*' -d . YcsbKeys.java && java -cp '*:.' site.ycsb.workloads.YcsbKeys ../workloads/ycsb > ycsb-keys.toml
package site.ycsb.workloads;

import java.io.FileReader;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.Vector;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;
import site.ycsb.measurements.Measurements;

public final class YcsbKeys {
  private static final PrintStream OUT = System.out;
  private static final int RECORDS = 100;
  private static final int DRAWS = 1_000_000;

  private static final int OPERATIONS = 200_000;
  private static final int SCAN_ROWS_MAX = 100;

  /** A store that only counts. */
  private static final class Counter extends DB {
    final Map<String, Integer> operations = new HashMap<>();
    final int[] scans = new int[SCAN_ROWS_MAX];

    private Status count(String operation) {
      operations.merge(operation, 1, Integer::sum);
      return Status.OK;
    }

    @Override
    public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
      return count("read");
    }

    @Override
    public Status scan(
        String table, String key, int rows, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
      scans[rows - 1]++;
      return count("scan");
    }

    @Override
    public Status update(String table, String key, Map<String, ByteIterator> values) {
      return count("update");
    }

    @Override
    public Status insert(String table, String key, Map<String, ByteIterator> values) {
      return count("insert");
    }

    @Override
    public Status delete(String table, String key) {
      return count("delete");
    }
  }

  /** The operations of a core workload; a read-modify-write is a read and an update. */
  private static Counter run(Properties properties) throws Exception {
    properties.setProperty("measurementtype", "raw");
    Measurements.setProperties(properties);
    CoreWorkload workload = new CoreWorkload();
    workload.init(properties);
    Counter counter = new Counter();
    for (int operation = 0; operation < OPERATIONS; operation++) {
      workload.doTransaction(counter, null);
    }
    return counter;
  }

  private static void line(int[] counts) {
    StringBuilder line = new StringBuilder();
    for (int at = 0; at < counts.length; at++) {
      line.append(at == 0 ? "" : at % 20 == 0 ? ",\n  " : ", ").append(counts[at]);
    }
    OUT.println("  " + line + ",\n]");
  }

  public static void main(String[] arguments) throws Exception {
    // YCSB prints remarks.
    System.setOut(System.err);
    OUT.println("# Written by YcsbKeys.java, which says how: YCSB 0.17.0, " + DRAWS + " keys of " + RECORDS + " records.\n[keys]");
    for (String distribution : new String[] {"uniform", "zipfian", "latest", "hotspot", "sequential", "exponential"}) {
      Properties properties = new Properties();
      properties.setProperty("recordcount", Integer.toString(RECORDS));
      properties.setProperty("operationcount", "0");
      properties.setProperty("measurementtype", "raw");
      properties.setProperty("requestdistribution", distribution);
      Measurements.setProperties(properties);
      CoreWorkload workload = new CoreWorkload();
      workload.init(properties);
      int[] counts = new int[RECORDS];
      for (int draw = 0; draw < DRAWS; draw++) {
        counts[(int) workload.nextKeynum()]++;
      }
      OUT.println(distribution + " = [");
      line(counts);
    }
    OUT.println("\n# The operations among " + OPERATIONS + " transactions of each core workload.");
    OUT.println("[mix]");
    for (String name : new String[] {"a", "b", "c", "d", "e", "f"}) {
      Properties properties = new Properties();
      properties.load(new FileReader(arguments[0] + "/" + name + ".properties"));
      StringBuilder line = new StringBuilder();
      for (Map.Entry<String, Integer> kind : new java.util.TreeMap<>(run(properties).operations).entrySet()) {
        line.append(line.length() == 0 ? "" : ", ").append(kind.getKey() + " = " + kind.getValue());
      }
      OUT.println(name + " = { " + line + " }");
    }
    OUT.println("\n# How often scans of workload E ask for 1, 2, … " + SCAN_ROWS_MAX + " rows.");
    OUT.println("[scan_rows]");
    for (String distribution : new String[] {"uniform", "zipfian"}) {
      Properties properties = new Properties();
      properties.load(new FileReader(arguments[0] + "/e.properties"));
      properties.setProperty("scanlengthdistribution", distribution);
      OUT.println(distribution + " = [");
      line(run(properties).scans);
    }
    System.exit(0);
  }
}
