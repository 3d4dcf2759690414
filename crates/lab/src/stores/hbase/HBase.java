import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.DoNotRetryIOException;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.CompactionState;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;

/**
 * HBase: a table of one column family, whose columns are cells under their names, as in YCSB's
 * binding. The endpoints are ZooKeeper's.
 *
 * <p>Keys sort by their bytes: a text is its UTF-8, an integer eight bytes, big-endian, with the
 * sign flipped. In a table of several regions the first byte of a key is the number of its region,
 * by a hash of the key, so that regions have equal shares whatever the keys are; a scan asks one
 * region after the other and merges the rows.
 */
final class HBase extends Store {
    /** The name is stored with every cell. */
    private static final byte[] FAMILY = {'f'};

    /** Pause between two looks whether files are merged, ms. */
    private static final long LOOK_MS = 100;

    private static final Map<String, Connection> SHARED = new HashMap<>();

    private Connection connection;
    private Table rows;
    private int regions;

    public static void main(String[] arguments) throws Exception {
        serve(HBase::new);
    }

    @Override
    void connect() throws Exception {
        synchronized (SHARED) {
            String place = endpoints + " " + timeoutS;
            connection = SHARED.get(place);
            if (connection == null) {
                Configuration settings = HBaseConfiguration.create();
                List<String> hosts = new ArrayList<>();
                for (String endpoint : endpoints) {
                    int colon = endpoint.lastIndexOf(':');
                    hosts.add(endpoint.substring(0, colon));
                    settings.set("hbase.zookeeper.property.clientPort", endpoint.substring(colon + 1));
                }
                settings.set("hbase.zookeeper.quorum", String.join(",", hosts));
                // The lab gives up an operation itself, after the client: a limit is looked at
                // between attempts, and ZooKeeper may delay each of them.
                long limitMs = timeoutS * 500;
                settings.setLong("hbase.rpc.timeout", limitMs);
                settings.setLong("hbase.client.operation.timeout", limitMs);
                settings.setLong("hbase.client.meta.operation.timeout", limitMs);
                settings.setLong("hbase.client.scanner.timeout.period", limitMs);
                settings.setInt("hbase.client.retries.number", 2);
                settings.setInt("zookeeper.recovery.retry", 1);
                settings.setInt("zookeeper.recovery.retry.intervalmill", 200);
                connection = ConnectionFactory.createConnection(settings);
                SHARED.put(place, connection);
            }
        }
    }

    @Override
    String version() throws Exception {
        try (Admin admin = connection.getAdmin()) {
            String version = admin.getClusterMetrics().getHBaseVersion();
            if (admin.getRegionServers().isEmpty()) {
                throw new Unreachable("no region server has come yet");
            }
            // Before that, the list of tables may be empty: the master refuses this while it
            // starts.
            admin.getNamespaceDescriptor("default");
            for (TableName name : admin.listTableNames((Pattern) null, true)) {
                // The server's own tables as well: a killed server replays its log first.
                if (admin.isTableEnabled(name) && !admin.isTableAvailable(name)) {
                    throw new Unreachable("table " + name + " is not open yet");
                }
            }
            return "HBase " + version;
        }
    }

    @Override
    void open() throws Exception {
        regions = Integer.parseInt(options.get("regions"));
        rows = connection.getTable(TableName.valueOf(table));
    }

    @Override
    void create() throws Exception {
        TableName name = rows.getName();
        try (Admin admin = connection.getAdmin()) {
            if (admin.tableExists(name)) {
                if (admin.isTableEnabled(name)) {
                    admin.disableTable(name);
                }
                admin.deleteTable(name);
            }
            Durability durability =
                    switch (options.get("wal")) {
                        case "sync" -> Durability.SYNC_WAL;
                        case "async" -> Durability.ASYNC_WAL;
                        default -> Durability.SKIP_WAL;
                    };
            TableDescriptorBuilder builder =
                    TableDescriptorBuilder.newBuilder(name)
                            .setColumnFamily(
                                    // One version: an update replaces a value.
                                    ColumnFamilyDescriptorBuilder.newBuilder(FAMILY)
                                            .setMaxVersions(1)
                                            .build())
                            .setDurability(durability);
            byte[][] splits = new byte[regions - 1][];
            for (int region = 1; region < regions; region++) {
                splits[region - 1] = new byte[] {(byte) region};
            }
            if (regions > 1) {
                admin.createTable(builder.build(), splits);
            } else {
                admin.createTable(builder.build());
            }
        }
    }

    @Override
    void settle(String until) throws Exception {
        if (until.equals("visible")) {
            return;
        }
        try (Admin admin = connection.getAdmin()) {
            admin.flush(rows.getName());
            if (until.equals("compacted")) {
                long before = admin.getLastMajorCompactionTimestamp(rows.getName());
                admin.majorCompact(rows.getName());
                // The request is queued: nothing may be under way at the first look.
                for (int quiet = 0; quiet < 10; ) {
                    Thread.sleep(LOOK_MS);
                    boolean done = admin.getCompactionState(rows.getName()) == CompactionState.NONE;
                    boolean merged = admin.getLastMajorCompactionTimestamp(rows.getName()) > before;
                    quiet = !done ? 0 : merged ? 10 : quiet + 1;
                }
            }
        }
    }

    /** The servers tell whole megabytes only; the lab has the size of the directory. */
    @Override
    Long size() {
        return null;
    }

    @Override
    void insert(List<List<Object>> all) throws Exception {
        List<Put> puts = new ArrayList<>(all.size());
        for (List<Object> row : all) {
            Put put = new Put(key(row.get(0)));
            for (int at = 0; at < columns.size(); at++) {
                put.addColumn(FAMILY, name(at), value(row.get(at + 1)));
            }
            puts.add(put);
        }
        if (puts.size() == 1) {
            rows.put(puts.get(0));
        } else {
            rows.put(puts);
        }
    }

    @Override
    List<Object> read(Object key) throws Exception {
        Result result = rows.get(new Get(key(key)));
        return result.isEmpty() ? null : row(result);
    }

    @Override
    boolean update(Object key, List<Cell> changes) throws Exception {
        Put put = new Put(key(key));
        for (Cell change : changes) {
            put.addColumn(FAMILY, name(change.column()), value(change.value()));
        }
        rows.put(put);
        return true;
    }

    @Override
    List<List<Object>> scan(Object from, int rowsMax) throws Exception {
        List<List<Object>> found = new ArrayList<>();
        for (int region = 0; region < regions; region++) {
            Scan scan = new Scan().withStartRow(inRegion(region, from)).setLimit(rowsMax);
            scan.setCaching(rowsMax);
            if (region + 1 < regions) {
                scan.withStopRow(new byte[] {(byte) (region + 1)});
            }
            try (ResultScanner scanner = rows.getScanner(scan)) {
                for (Result result : scanner) {
                    found.add(row(result));
                }
            }
        }
        if (regions > 1) {
            found.sort((a, b) -> Arrays.compareUnsigned(plain(a.get(0)), plain(b.get(0))));
        }
        return found.size() > rowsMax ? found.subList(0, rowsMax) : found;
    }

    @Override
    void delete(Object key) throws Exception {
        rows.delete(new Delete(key(key)));
    }

    @Override
    boolean isUnreachable(Exception failure) {
        return failure instanceof IOException && !(failure instanceof DoNotRetryIOException)
                || failure instanceof IllegalStateException;
    }

    private byte[] name(int column) {
        return columns.get(column).name().getBytes(StandardCharsets.UTF_8);
    }

    private byte[] key(Object key) {
        int hash = key.hashCode() * 0x9E3779B9;
        return inRegion(Math.floorMod(hash ^ hash >>> 15, regions), key);
    }

    private byte[] inRegion(int region, Object key) {
        byte[] plain = plain(key);
        if (regions == 1) {
            return plain;
        }
        byte[] bytes = new byte[plain.length + 1];
        bytes[0] = (byte) region;
        System.arraycopy(plain, 0, bytes, 1, plain.length);
        return bytes;
    }

    private static byte[] plain(Object key) {
        return key instanceof Long number ? value(number ^ Long.MIN_VALUE) : value(key);
    }

    private static byte[] value(Object value) {
        return value instanceof Long number
                ? ByteBuffer.allocate(8).putLong(number).array()
                : ((String) value).getBytes(StandardCharsets.UTF_8);
    }

    private List<Object> row(Result result) throws IOException {
        byte[] key = result.getRow();
        int before = regions == 1 ? 0 : 1;
        List<Object> row = new ArrayList<>(columns.size() + 1);
        Object plain = decoded(integerKey, Arrays.copyOfRange(key, before, key.length));
        row.add(plain instanceof Long number ? (Object) (number ^ Long.MIN_VALUE) : plain);
        for (int at = 0; at < columns.size(); at++) {
            byte[] value = result.getValue(FAMILY, name(at));
            // The lab refuses a row that lacks a column.
            if (value != null) {
                row.add(decoded(columns.get(at).integer(), value));
            }
        }
        return row;
    }

    private static Object decoded(boolean integer, byte[] bytes) {
        return integer ? (Object) ByteBuffer.wrap(bytes).getLong() : new String(bytes, StandardCharsets.UTF_8);
    }
}
