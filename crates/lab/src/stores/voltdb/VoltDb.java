import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import org.voltdb.VoltTable;
import org.voltdb.client.Client;
import org.voltdb.client.ClientConfig;
import org.voltdb.client.ClientFactory;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.NoConnectionsException;
import org.voltdb.client.ProcCallException;

/**
 * VoltDB: a table in memory, spread over the partitions of a cluster by its key.
 *
 * <p>A call of a procedure is planned once, when the procedure is made; a statement sent as text
 * ({@code @AdHoc}) is planned each time. So every statement that a study repeats has a procedure:
 * the server's own for inserts, reads and deletes, and one of {@link #prepared} for the rest. Names
 * are of letters of one case, and some words are reserved: table {@code logs} is {@code t_logs}, its
 * column {@code time} is {@code c_time}, and its key is {@code k}.
 *
 * <p>The least 64-bit number is the NULL of its type. Rows of the lab have no NULL, so that a NULL
 * stands for this number; as a key it is refused.
 */
final class VoltDb extends Store {
    /** Indexed columns up to which counts by each set of them have a procedure. */
    private static final int COUNTED_COLUMNS_MAX = 5;

    /** Declared length of a text, bytes; a longer one is refused. It reserves nothing. */
    private static final int TEXT_BYTES_MAX = 64 << 10;

    /** Bytes of all declared texts of a row. The server accepts rows of up to 2 MiB. */
    private static final int ROW_TEXT_BYTES_MAX = 2_000_000;

    /** Statistics are in units of 1024 bytes, and made anew every few seconds. */
    private static final long STATISTICS_UNIT_BYTES = 1024;

    private static final long STATISTICS_PAUSE_MS = 250;

    /** Time limit of definitions, ms: they wait for all partitions. */
    private static final int DEFINE_MS_MAX = 600_000;

    private static final Map<String, Client> SHARED = new HashMap<>();

    /** Held while a table is looked for and made. */
    private static final Object DEFINING = new Object();

    /** The first failure among calls that were sent together. */
    private static final class Failed extends Exception {
        private static final long serialVersionUID = 1;
        final byte status;

        Failed(ClientResponse response) {
            super(response.getStatusString());
            status = response.getStatus();
        }
    }

    private Client client;
    private String name;
    private Set<String> procedures;

    public static void main(String[] arguments) throws Exception {
        serve(VoltDb::new);
    }

    @Override
    void connect() throws Exception {
        synchronized (SHARED) {
            String place = endpoints + " " + timeoutS;
            client = SHARED.get(place);
            if (client == null) {
                ClientConfig config = new ClientConfig();
                config.setProcedureCallTimeout(Math.max(500, timeoutS * 1000 - 1000));
                config.setConnectionResponseTimeout(Math.max(2000, timeoutS * 1000));
                client = ClientFactory.createClient(config);
                SHARED.put(place, client);
            }
            if (client.getConnectedHostList().isEmpty()) {
                for (String endpoint : endpoints) {
                    int colon = endpoint.lastIndexOf(':');
                    client.createConnection(
                            endpoint.substring(0, colon), Integer.parseInt(endpoint.substring(colon + 1)));
                }
            }
        }
    }

    /** Once all nodes of the cluster run: as many as there are endpoints. */
    @Override
    String version() throws Exception {
        VoltTable overview = call("@SystemInformation", "OVERVIEW");
        String version = "";
        int running = 0;
        while (overview.advanceRow()) {
            String value = overview.getString("VALUE");
            switch (overview.getString("KEY")) {
                case "VERSION" -> version = value;
                case "CLUSTERSTATE" -> running += value.equals("RUNNING") ? 1 : 0;
                default -> {}
            }
        }
        if (running < endpoints.size()) {
            throw new Unreachable(running + " of " + endpoints.size() + " nodes are running");
        }
        return "VoltDB " + version;
    }

    @Override
    void open() throws Exception {
        name = "t_" + table;
        procedures = prepared().keySet();
        // A server that was restarted has no table any more: its rows are then found missing.
        synchronized (DEFINING) {
            if (!catalog("TABLES", "TABLE_NAME").contains(name.toUpperCase())) {
                define();
            }
        }
    }

    @Override
    void create() throws Exception {
        synchronized (DEFINING) {
            StringBuilder sql = new StringBuilder();
            for (String procedure : catalog("PROCEDURES", "PROCEDURE_NAME")) {
                if (procedure.matches("(scan|set|count)(_\\d+)*_" + name)) {
                    sql.append("drop procedure ").append(procedure).append("; ");
                }
            }
            run(sql + "drop table " + name + " if exists cascade;");
            define();
        }
    }

    private void define() throws Exception {
        long texts = columns.stream().filter(column -> !column.integer()).count() + (integerKey ? 0 : 1);
        String text = "varchar(" + Math.min(TEXT_BYTES_MAX, ROW_TEXT_BYTES_MAX / Math.max(1, texts)) + " bytes)";
        StringBuilder sql = new StringBuilder("create table " + name + " (k ");
        sql.append(integerKey ? "bigint" : text).append(" not null");
        for (Column column : columns) {
            sql.append(", c_").append(column.name());
            sql.append(column.integer() ? " bigint" : " " + text + " not null");
        }
        sql.append(", primary key (k)); partition table ").append(name).append(" on column k;");
        for (Column column : columns) {
            if (column.indexed()) {
                sql.append(" create index i_" + column.name() + "_" + name + " on " + name);
                sql.append(" (c_" + column.name() + ");");
            }
        }
        prepared().forEach((procedure, statement) -> {
            sql.append(" create procedure ").append(procedure);
            if (procedure.startsWith("set_")) {
                // A change is sent to the partition of its key alone.
                long key = statement.chars().filter(c -> c == '?').count() - 1;
                sql.append(" partition on table " + name + " column k parameter " + key);
            }
            sql.append(" as ").append(statement).append(";");
        });
        run(sql.toString());
    }

    /** Scans, changes of one column and of all, and counts by each set of few indexed columns. */
    private Map<String, String> prepared() {
        Map<String, String> all = new HashMap<>();
        all.put("scan_" + name, "select * from " + name + " where k >= ? order by k limit ?");
        List<Integer> every = new ArrayList<>();
        List<Integer> indexed = new ArrayList<>();
        for (int at = 0; at < columns.size(); at++) {
            every.add(at);
            all.put(procedure("set", List.of(at)), set(List.of(at)));
            if (columns.get(at).indexed()) {
                indexed.add(at);
            }
        }
        all.put(procedure("set", every), set(every));
        int subsets = indexed.size() > COUNTED_COLUMNS_MAX ? 1 : 1 << indexed.size();
        for (int subset = 0; subset < subsets; subset++) {
            List<Integer> chosen = new ArrayList<>();
            for (int bit = 0; bit < indexed.size(); bit++) {
                if ((subset >> bit & 1) == 1) {
                    chosen.add(indexed.get(bit));
                }
            }
            List<String> equal = chosen.stream().map(at -> "c_" + columns.get(at).name() + " = ?").toList();
            all.put(procedure("count", chosen), counted(equal));
        }
        return all;
    }

    private String procedure(String operation, List<Integer> chosen) {
        return operation + chosen.stream().map(at -> "_" + at).collect(Collectors.joining()) + "_" + name;
    }

    private String set(List<Integer> chosen) {
        String sets =
                chosen.stream()
                        .map(at -> "c_" + columns.get(at).name() + " = ?")
                        .collect(Collectors.joining(", "));
        return "update " + name + " set " + sets + " where k = ?";
    }

    private String counted(List<String> conditions) {
        String where = conditions.isEmpty() ? "" : " where " + String.join(" and ", conditions);
        return "select count(*) from " + name + where;
    }

    /** Acknowledged rows are visible, and there are no data files. */
    @Override
    void settle(String until) {}

    /** Memory of rows, texts and indexes in all partitions, by statistics made after this call. */
    @Override
    Long size() throws Exception {
        Map<String, long[]> before = statistics("TABLE");
        while (true) {
            Thread.sleep(STATISTICS_PAUSE_MS);
            Map<String, long[]> now = statistics("TABLE");
            boolean isNew = before.entrySet().stream()
                    .allMatch(old -> now.containsKey(old.getKey()) && now.get(old.getKey())[0] > old.getValue()[0]);
            if (isNew && !now.isEmpty()) {
                long rows = now.values().stream().mapToLong(part -> part[1]).sum();
                return rows + statistics("INDEX").values().stream().mapToLong(part -> part[1]).sum();
            }
        }
    }

    /** The time of the statistics, and bytes, of each part of the table or of its indexes. */
    private Map<String, long[]> statistics(String kind) throws Exception {
        VoltTable found = call("@Statistics", kind, 0);
        String[] sizes = kind.equals("INDEX")
                ? new String[] {"MEMORY_ESTIMATE"}
                : new String[] {"TUPLE_ALLOCATED_MEMORY", "STRING_DATA_MEMORY"};
        Map<String, long[]> parts = new HashMap<>();
        while (found.advanceRow()) {
            if (!found.getString("TABLE_NAME").equalsIgnoreCase(name)) {
                continue;
            }
            long bytes = 0;
            for (String size : sizes) {
                bytes += ((Number) found.get(size, found.getColumnType(found.getColumnIndex(size)))).longValue();
            }
            String index = kind.equals("INDEX") ? found.getString("INDEX_NAME") : "";
            String part = found.getLong("HOST_ID") + " " + found.getLong("SITE_ID") + " " + index;
            parts.put(part, new long[] {found.getLong("TIMESTAMP"), bytes * STATISTICS_UNIT_BYTES});
        }
        return parts;
    }

    /** Many rows are inserted by calls that are sent together. */
    @Override
    void insert(List<List<Object>> rows) throws Exception {
        String procedure = name.toUpperCase() + ".insert";
        if (rows.size() == 1) {
            call(procedure, rows.get(0).toArray());
            return;
        }
        CountDownLatch left = new CountDownLatch(rows.size());
        AtomicReference<ClientResponse> failed = new AtomicReference<>();
        for (List<Object> row : rows) {
            client.callProcedure(
                    response -> {
                        if (response.getStatus() != ClientResponse.SUCCESS) {
                            failed.set(response);
                        }
                        left.countDown();
                    },
                    procedure,
                    row.toArray());
        }
        left.await();
        if (failed.get() != null) {
            throw new Failed(failed.get());
        }
    }

    @Override
    List<Object> read(Object key) throws Exception {
        List<List<Object>> found = rows(call(name.toUpperCase() + ".select", key));
        return found.isEmpty() ? null : found.get(0);
    }

    @Override
    boolean update(Object key, List<Cell> changes) throws Exception {
        List<Integer> chosen = changes.stream().map(Cell::column).toList();
        List<Object> values = new ArrayList<>(changes.stream().map(Cell::value).toList());
        values.add(key);
        return number(procedure("set", chosen), set(chosen), values) > 0;
    }

    @Override
    List<List<Object>> scan(Object from, int rowsMax) throws Exception {
        return rows(call("scan_" + name, from, rowsMax));
    }

    @Override
    long count(List<Cell> conditions) throws Exception {
        List<Integer> chosen = new ArrayList<>();
        List<String> texts = new ArrayList<>();
        List<Object> values = new ArrayList<>();
        boolean hasNull = false;
        for (Cell condition : conditions) {
            boolean isNull = condition.value().equals(Long.MIN_VALUE);
            hasNull |= isNull;
            chosen.add(condition.column());
            texts.add("c_" + columns.get(condition.column()).name() + (isNull ? " is null" : " = ?"));
            if (!isNull) {
                values.add(condition.value());
            }
        }
        return number(hasNull ? "" : procedure("count", chosen), counted(texts), values);
    }

    @Override
    void delete(Object key) throws Exception {
        call(name.toUpperCase() + ".delete", key);
    }

    @Override
    boolean isUnreachable(Exception failure) {
        if (failure instanceof ProcCallException refused) {
            return isLost(refused.getClientResponse().getStatus());
        }
        return failure instanceof Failed failed ? isLost(failed.status) : failure instanceof IOException;
    }

    private static boolean isLost(byte status) {
        return status == ClientResponse.CONNECTION_LOST
                || status == ClientResponse.CONNECTION_TIMEOUT
                || status == ClientResponse.SERVER_UNAVAILABLE;
    }

    /** The one number of a procedure, or of a statement that has none. */
    private long number(String procedure, String statement, List<Object> values) throws Exception {
        if (procedures.contains(procedure)) {
            return call(procedure, values.toArray()).asScalarLong();
        }
        values.add(0, statement);
        return call("@AdHoc", values.toArray()).asScalarLong();
    }

    private List<List<Object>> rows(VoltTable found) {
        List<List<Object>> rows = new ArrayList<>(found.getRowCount());
        while (found.advanceRow()) {
            List<Object> row = new ArrayList<>(columns.size() + 1);
            row.add(integerKey ? (Object) found.getLong(0) : found.getString(0));
            for (int at = 0; at < columns.size(); at++) {
                row.add(columns.get(at).integer() ? (Object) found.getLong(at + 1) : found.getString(at + 1));
            }
            rows.add(row);
        }
        return rows;
    }

    private void run(String sql) throws Exception {
        client.callProcedureWithTimeout(DEFINE_MS_MAX, "@AdHoc", sql);
    }

    private Set<String> catalog(String kind, String column) throws Exception {
        VoltTable found = call("@SystemCatalog", kind);
        Set<String> texts = new HashSet<>();
        while (found.advanceRow()) {
            texts.add(found.getString(column));
        }
        return texts;
    }

    private VoltTable call(String procedure, Object... values) throws Exception {
        try {
            return client.callProcedure(procedure, values).getResults()[0];
        } catch (NoConnectionsException none) {
            connect();
            return client.callProcedure(procedure, values).getResults()[0];
        }
    }
}
