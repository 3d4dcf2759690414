import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.ToNumberPolicy;
import com.google.gson.reflect.TypeToken;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/**
 * One connection of the lab to a store, by the store's own client library.
 *
 * <p>The lab sends requests as lines of JSON over TCP on loopback, as docs/lab/own-store.md has
 * them; a thread answers each connection. The process prints the port on its first line, and ends
 * when its standard input ends, which the lab holds open. A value is a Long or a String, a row a
 * list of its key and its values.
 */
abstract class Store {
    /** A column of the table. */
    record Column(String name, boolean integer, boolean indexed) {}

    /** The values that columns must have, or get, by the index of the column. */
    record Cell(int column, Object value) {}

    /** The store cannot be reached; any other exception is an error that the store answered. */
    static final class Unreachable extends Exception {
        private static final long serialVersionUID = 1;

        Unreachable(String reason) {
            super(reason);
        }
    }

    private static final Gson JSON =
            new GsonBuilder()
                    .disableHtmlEscaping()
                    .serializeNulls()
                    .setObjectToNumberStrategy(ToNumberPolicy.LONG_OR_DOUBLE)
                    .create();
    private static final TypeToken<Map<String, Object>> REQUEST = new TypeToken<>() {};

    /** Addresses of the nodes, {@code host:port}; of the one node for stores that know no others. */
    List<String> endpoints;

    /** Limit of one operation, s. */
    long timeoutS;

    String table;
    boolean integerKey;
    List<Column> columns;
    Map<String, String> options;

    /** Connects, or finds the connection that all threads share. */
    abstract void connect() throws Exception;

    /** The version of the servers, once all of them answer. */
    abstract String version() throws Exception;

    /** The table of all further requests is known. */
    void open() throws Exception {}

    abstract void create() throws Exception;

    abstract void settle(String until) throws Exception;

    /** Bytes of the table; null if the store does not tell. */
    abstract Long size() throws Exception;

    abstract void insert(List<List<Object>> rows) throws Exception;

    /** The row, or null. */
    abstract List<Object> read(Object key) throws Exception;

    /** Whether there is such a row, as far as the store tells. */
    abstract boolean update(Object key, List<Cell> changes) throws Exception;

    abstract List<List<Object>> scan(Object from, int rowsMax) throws Exception;

    long count(List<Cell> conditions) throws Exception {
        throw new UnsupportedOperationException("count");
    }

    abstract void delete(Object key) throws Exception;

    /** Closes what this thread has alone. */
    void close() throws Exception {}

    /** Whether an exception of the client library says that the store cannot be reached. */
    abstract boolean isUnreachable(Exception failure);

    /** Serves until the standard input ends. */
    static void serve(Supplier<Store> connections) throws Exception {
        ServerSocket listener = new ServerSocket(0, 256, InetAddress.getLoopbackAddress());
        System.out.println(listener.getLocalPort());
        System.out.flush();
        // Nobody reads what libraries print from here on.
        System.setOut(System.err);
        Thread parent =
                new Thread(
                        () -> {
                            try {
                                while (System.in.read() >= 0) {}
                            } catch (Exception ended) {
                                // As if it had ended.
                            }
                            Runtime.getRuntime().halt(0);
                        });
        parent.setDaemon(true);
        parent.start();
        while (true) {
            Socket socket = listener.accept();
            Thread thread = new Thread(() -> answerAll(socket, connections.get()));
            thread.setDaemon(true);
            thread.start();
        }
    }

    private static void answerAll(Socket socket, Store store) {
        try (socket) {
            socket.setTcpNoDelay(true);
            BufferedReader in =
                    new BufferedReader(
                            new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8),
                            1 << 16);
            OutputStream out = socket.getOutputStream();
            for (String line; (line = in.readLine()) != null; ) {
                Map<String, Object> answer = new LinkedHashMap<>(2);
                try {
                    store.answer(JSON.fromJson(line, REQUEST), answer);
                } catch (Exception failure) {
                    String reason = failure.toString();
                    Throwable cause = failure.getCause();
                    String text = cause == null ? reason : reason + ": " + cause;
                    boolean gone = failure instanceof Unreachable || store.isUnreachable(failure);
                    answer.put(gone ? "unreachable" : "error", text);
                }
                out.write((JSON.toJson(answer) + "\n").getBytes(StandardCharsets.UTF_8));
            }
            store.close();
        } catch (Exception gone) {
            // The lab closed the connection.
        }
    }

    @SuppressWarnings("unchecked")
    private void answer(Map<String, Object> request, Map<String, Object> answer) throws Exception {
        switch ((String) request.get("do")) {
            case "connect" -> {
                endpoints = (List<String>) request.get("endpoints");
                timeoutS = (Long) request.get("timeout_s");
                options = (Map<String, String>) request.get("options");
                connect();
                answer.put("done", true);
            }
            case "version" -> answer.put("text", version());
            case "open" -> {
                Map<String, Object> schema = (Map<String, Object>) request.get("schema");
                table = (String) schema.get("table");
                integerKey = schema.get("key").equals("integer");
                columns = new ArrayList<>();
                for (Map<String, Object> column : (List<Map<String, Object>>) schema.get("columns")) {
                    boolean integer = column.get("kind").equals("integer");
                    boolean indexed = Boolean.TRUE.equals(column.get("indexed"));
                    columns.add(new Column((String) column.get("name"), integer, indexed));
                }
                open();
                answer.put("done", true);
            }
            case "create" -> {
                create();
                answer.put("done", true);
            }
            case "settle" -> {
                settle((String) request.get("until"));
                answer.put("done", true);
            }
            case "size" -> answer.put("bytes", size());
            case "insert" -> {
                insert((List<List<Object>>) request.get("rows"));
                answer.put("done", true);
            }
            case "read" -> {
                List<Object> row = read(request.get("key"));
                answer.put("rows", row == null ? List.of() : List.of(row));
            }
            case "update" ->
                    answer.put("done", update(request.get("key"), cells(request.get("changes"))));
            case "scan" -> {
                long rowsMax = (Long) request.get("rows_max");
                boolean none = rowsMax == 0;
                int most = (int) Math.min(rowsMax, Integer.MAX_VALUE);
                answer.put("rows", none ? List.of() : scan(request.get("from"), most));
            }
            case "count" -> answer.put("count", count(cells(request.get("conditions"))));
            case "delete" -> {
                delete(request.get("key"));
                answer.put("done", true);
            }
            default -> throw new UnsupportedOperationException((String) request.get("do"));
        }
    }

    /** Pairs of a column's name and a value, in the order of the columns. */
    @SuppressWarnings("unchecked")
    private List<Cell> cells(Object pairs) {
        List<Cell> cells = new ArrayList<>();
        for (List<Object> pair : (List<List<Object>>) pairs) {
            int at = 0;
            while (!columns.get(at).name().equals(pair.get(0))) {
                at++;
            }
            cells.add(new Cell(at, pair.get(1)));
        }
        cells.sort((a, b) -> Integer.compare(a.column(), b.column()));
        return cells;
    }
}
