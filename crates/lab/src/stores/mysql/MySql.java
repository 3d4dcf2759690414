import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * MySQL and MariaDB: an InnoDB table with the key as primary key, and an index for each column that
 * counts filter by. Each thread has a connection, with statements prepared by the server once.
 *
 * <p>Keys and indexed texts are {@code varbinary}: their order and their equality are those of
 * bytes; collations would ignore spaces at the end. The SQL mode is strict, because MySQL 5.5
 * otherwise cuts a text that is too long for its column. The password is read from MYSQL_PWD, as by
 * MySQL's own programs.
 */
final class MySql extends Store {
    /** The column of the key. No other column has this name, because they have no spaces. */
    private static final String KEY = "`row key`";

    /** Limit of a key and of an indexed text, in bytes: the longest that an index of MySQL 5.5 takes. */
    private static final int INDEXED_BYTES_MAX = 767;

    /** Limit of the rows of one statement, a power of two, and about that of its bytes. */
    private static final int ROWS_MAX = 512;

    private static final long STATEMENT_BYTES_MAX = 512 << 10;

    /** Pages in memory that may differ from the data files after a flush: a few change all the time. */
    private static final long DIRTY_PAGES_MAX = 16;

    private static final long DIRTY_LOOK_MS = 200;
    private static final String DIRTY_PERCENT = "innodb_max_dirty_pages_pct";

    /** Errors with which a server ends: ER_SERVER_SHUTDOWN, and ER_CONNECTION_KILLED of MariaDB. */
    private static final List<Integer> GOING = List.of(1053, 1927);

    private final Map<String, PreparedStatement> prepared = new HashMap<>();
    private Connection connection;
    private String name;
    private List<String> all;

    public static void main(String[] arguments) throws Exception {
        serve(MySql::new);
    }

    @Override
    void connect() throws SQLException {
        long limitMs = Math.max(500, timeoutS * 1000 - 1000);
        String url =
                "jdbc:mariadb://" + endpoints.get(0) + "/?useServerPrepStmts=true&cachePrepStmts=false"
                        + "&useAffectedRows=false&connectTimeout=" + Math.min(limitMs, 10_000)
                        + "&socketTimeout=" + Math.min(limitMs, Integer.MAX_VALUE);
        connection = DriverManager.getConnection(url, options.get("user"), System.getenv("MYSQL_PWD"));
        run("set session sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'");
        run("set names utf8mb4");
    }

    @Override
    String version() throws Exception {
        String version = text("select version()", 1);
        return (version.contains("MariaDB") ? "MariaDB " : "MySQL ") + version;
    }

    @Override
    void open() {
        name = quoted(options.get("database")) + "." + quoted(table);
        all = new ArrayList<>(List.of(KEY));
        columns.forEach(column -> all.add(quoted(column.name())));
    }

    @Override
    void create() throws Exception {
        StringBuilder parts = new StringBuilder(KEY + " " + type(integerKey, true) + " not null primary key");
        for (Column column : columns) {
            String type = type(column.integer(), column.indexed());
            parts.append(", ").append(quoted(column.name())).append(" ").append(type).append(" not null");
        }
        for (Column column : columns) {
            parts.append(column.indexed() ? ", index (" + quoted(column.name()) + ")" : "");
        }
        run("create database if not exists " + quoted(options.get("database")));
        run("drop table if exists " + name);
        run("create table " + name + " (" + parts + ") engine = InnoDB default character set utf8mb4");
        closeStatements();
    }

    private static String type(boolean integer, boolean indexed) {
        return integer ? "bigint" : indexed ? "varbinary(" + INDEXED_BYTES_MAX + ")" : "longtext";
    }

    /** Flushed: the limit of changed pages is 0 until they are written, which needs that right. */
    @Override
    void settle(String until) throws Exception {
        if (until.equals("visible")) {
            return;
        }
        if (until.equals("compacted")) {
            administer("optimize");
        }
        String usual = text("select @@global." + DIRTY_PERCENT + " + 0e0", 1);
        run("set global " + DIRTY_PERCENT + " = 0");
        try {
            String dirty = "show global status like 'Innodb_buffer_pool_pages_dirty'";
            while (Long.parseLong(text(dirty, 2)) > DIRTY_PAGES_MAX) {
                Thread.sleep(DIRTY_LOOK_MS);
            }
        } finally {
            run("set global " + DIRTY_PERCENT + " = " + usual);
        }
    }

    @Override
    Long size() throws Exception {
        // MariaDB keeps sizes among the statistics of a table, which are behind its changes.
        administer("analyze");
        String sql =
                "select data_length + index_length from information_schema.tables"
                        + " where table_schema = ? and table_name = ?";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            statement.setString(1, options.get("database"));
            statement.setString(2, table);
            ResultSet found = statement.executeQuery();
            return found.next() ? (Long) found.getLong(1) : null;
        }
    }

    /** Runs {@code optimize} or {@code analyze}, which report errors in rows. */
    private void administer(String command) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet found = statement.executeQuery(command + " table " + name)) {
            while (found.next()) {
                if (found.getString(3).equalsIgnoreCase("error")) {
                    throw new SQLException(found.getString(4));
                }
            }
        }
    }

    /** Many rows are one transaction: all, or none. Few sizes of statements are prepared. */
    @Override
    void insert(List<List<Object>> rows) throws Exception {
        if (rows.size() == 1) {
            change(insert(1), rows.get(0));
            return;
        }
        connection.setAutoCommit(false);
        try {
            for (int at = 0; at < rows.size(); ) {
                int count = Math.min(ROWS_MAX, Integer.highestOneBit(rows.size() - at));
                while (count > 1 && bytes(rows.subList(at, at + count)) > STATEMENT_BYTES_MAX) {
                    count /= 2;
                }
                List<Object> values = new ArrayList<>();
                rows.subList(at, at + count).forEach(values::addAll);
                change(insert(count), values);
                at += count;
            }
            connection.commit();
        } catch (SQLException failed) {
            connection.rollback();
            throw failed;
        } finally {
            connection.setAutoCommit(true);
        }
    }

    private String insert(int rows) {
        String row = "(" + String.join(", ", Collections.nCopies(all.size(), "?")) + ")";
        String places = String.join(", ", Collections.nCopies(rows, row));
        return "insert into " + name + " (" + String.join(", ", all) + ") values " + places;
    }

    private static long bytes(List<List<Object>> rows) {
        return rows.stream()
                .flatMap(List::stream)
                .mapToLong(value -> value instanceof String text ? 4L * text.length() : 12)
                .sum();
    }

    @Override
    List<Object> read(Object key) throws Exception {
        String sql = "select " + String.join(", ", all) + " from " + name + " where " + KEY + " = ?";
        List<List<Object>> found = rows(sql, List.of(key));
        return found.isEmpty() ? null : found.get(0);
    }

    @Override
    boolean update(Object key, List<Cell> changes) throws Exception {
        List<Object> values = new ArrayList<>(changes.stream().map(Cell::value).toList());
        values.add(key);
        return change("update " + name + " set " + equal(changes, ", ") + " where " + KEY + " = ?", values) > 0;
    }

    @Override
    List<List<Object>> scan(Object from, int rowsMax) throws Exception {
        String sql =
                "select " + String.join(", ", all) + " from " + name
                        + " where " + KEY + " >= ? order by " + KEY + " limit ?";
        return rows(sql, List.of(from, (long) rowsMax));
    }

    @Override
    long count(List<Cell> conditions) throws Exception {
        String where = conditions.isEmpty() ? "" : " where " + equal(conditions, " and ");
        PreparedStatement statement = prepared("select count(*) from " + name + where);
        set(statement, conditions.stream().map(Cell::value).toList());
        try (ResultSet found = statement.executeQuery()) {
            found.next();
            return found.getLong(1);
        }
    }

    @Override
    void delete(Object key) throws Exception {
        change("delete from " + name + " where " + KEY + " = ?", List.of(key));
    }

    @Override
    boolean isUnreachable(Exception failure) {
        return failure instanceof SQLException sql
                && (GOING.contains(sql.getErrorCode())
                        || sql.getSQLState() != null && sql.getSQLState().startsWith("08")
                        || sql.getCause() instanceof IOException);
    }

    @Override
    void close() throws Exception {
        if (connection != null) {
            connection.close();
        }
    }

    private String equal(List<Cell> cells, String between) {
        return cells.stream()
                .map(cell -> quoted(columns.get(cell.column()).name()) + " = ?")
                .collect(Collectors.joining(between));
    }

    private PreparedStatement prepared(String sql) throws SQLException {
        PreparedStatement known = prepared.get(sql);
        if (known == null) {
            known = connection.prepareStatement(sql);
            prepared.put(sql, known);
        }
        return known;
    }

    private void closeStatements() throws SQLException {
        for (PreparedStatement statement : prepared.values()) {
            statement.close();
        }
        prepared.clear();
    }

    private long change(String sql, List<Object> values) throws SQLException {
        PreparedStatement statement = prepared(sql);
        set(statement, values);
        return statement.executeUpdate();
    }

    private static void set(PreparedStatement statement, List<Object> values) throws SQLException {
        for (int at = 0; at < values.size(); at++) {
            if (values.get(at) instanceof Long number) {
                statement.setLong(at + 1, number);
            } else {
                statement.setString(at + 1, (String) values.get(at));
            }
        }
    }

    private List<List<Object>> rows(String sql, List<Object> values) throws SQLException {
        PreparedStatement statement = prepared(sql);
        set(statement, values);
        List<List<Object>> rows = new ArrayList<>();
        try (ResultSet found = statement.executeQuery()) {
            while (found.next()) {
                List<Object> row = new ArrayList<>(all.size());
                for (int at = 0; at < all.size(); at++) {
                    boolean integer = at == 0 ? integerKey : columns.get(at - 1).integer();
                    boolean binary = at == 0 || columns.get(at - 1).indexed();
                    row.add(
                            integer
                                    ? (Object) found.getLong(at + 1)
                                    : binary
                                            ? new String(found.getBytes(at + 1), StandardCharsets.UTF_8)
                                            : found.getString(at + 1));
                }
                rows.add(row);
            }
        }
        return rows;
    }

    private String text(String sql, int column) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet found = statement.executeQuery(sql)) {
            found.next();
            return found.getString(column);
        }
    }

    private void run(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    private static String quoted(String name) {
        return "`" + name.replace("`", "``") + "`";
    }
}
