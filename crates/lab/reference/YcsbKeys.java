// How often YCSB itself chooses each of 100 records, for the test of our key choosers: prints ycsb-keys.toml.
//
//   mvn dependency:copy -Dartifact=site.ycsb:core:0.17.0 -DoutputDirectory=.
//   javac -cp core-0.17.0.jar -d . YcsbKeys.java && java -cp core-0.17.0.jar:. site.ycsb.workloads.YcsbKeys > ycsb-keys.toml
package site.ycsb.workloads;

import java.util.Properties;
import site.ycsb.measurements.Measurements;

public final class YcsbKeys {
  private static final int RECORDS = 100;
  private static final int DRAWS = 1_000_000;

  public static void main(String[] arguments) throws Exception {
    System.out.println("# Written by YcsbKeys.java, which says how: YCSB 0.17.0, " + DRAWS + " keys of " + RECORDS + " records.");
    for (String distribution : new String[] {"uniform", "zipfian", "latest", "hotspot", "sequential", "exponential"}) {
      Properties properties = new Properties();
      properties.setProperty("recordcount", Integer.toString(RECORDS));
      properties.setProperty("operationcount", "0");
      properties.setProperty("measurementtype", "raw");
      properties.setProperty("requestdistribution", distribution);
      Measurements.setProperties(properties);
      CoreWorkload workload = new CoreWorkload();
      workload.init(properties);
      long[] counts = new long[RECORDS];
      for (int draw = 0; draw < DRAWS; draw++) {
        counts[(int) workload.nextKeynum()]++;
      }
      StringBuilder line = new StringBuilder();
      for (int key = 0; key < RECORDS; key++) {
        line.append(key == 0 ? "" : key % 20 == 0 ? ",\n  " : ", ").append(counts[key]);
      }
      System.out.println(distribution + " = [\n  " + line + ",\n]");
    }
  }
}
