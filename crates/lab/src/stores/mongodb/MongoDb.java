import com.mongodb.MongoCommandException;
import com.mongodb.MongoException;
import com.mongodb.MongoSocketException;
import com.mongodb.MongoTimeoutException;
import com.mongodb.MongoClientSettings;
import com.mongodb.MongoNodeIsRecoveringException;
import com.mongodb.MongoNotPrimaryException;
import com.mongodb.ServerAddress;
import com.mongodb.WriteConcern;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoCursor;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.Indexes;
import com.mongodb.client.model.Sorts;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.bson.Document;

/**
 * MongoDB's protocol, for MongoDB itself and for FerretDB: a collection whose documents have the key
 * as {@code _id}, and an index for each column that counts filter by. Nothing is tried twice.
 */
final class MongoDb extends Store {
    /** The error of a command that the server does not have. */
    private static final int COMMAND_NOT_FOUND = 59;

    /** Connections of all threads to a server. */
    private static final int CONNECTIONS_MAX = 1024;

    private static final Map<String, MongoClient> SHARED = new HashMap<>();

    private MongoClient client;
    private MongoDatabase database;
    private MongoCollection<Document> rows;

    public static void main(String[] arguments) throws Exception {
        serve(MongoDb::new);
    }

    @Override
    void connect() {
        synchronized (SHARED) {
            client = SHARED.computeIfAbsent(endpoints.get(0) + " " + timeoutS, key -> newClient());
        }
    }

    private MongoClient newClient() {
        String endpoint = endpoints.get(0);
        int colon = endpoint.lastIndexOf(':');
        ServerAddress address =
                new ServerAddress(endpoint.substring(0, colon), Integer.parseInt(endpoint.substring(colon + 1)));
        // The lab gives up an operation itself, a little after the client.
        long limitMs = Math.max(500, timeoutS * 1000 - 1000);
        return MongoClients.create(
                MongoClientSettings.builder()
                        .retryReads(false)
                        .retryWrites(false)
                        .applyToClusterSettings(
                                cluster ->
                                        cluster.hosts(List.of(address))
                                                .serverSelectionTimeout(
                                                        Math.min(limitMs, 5000), TimeUnit.MILLISECONDS))
                        .applyToConnectionPoolSettings(pool -> pool.maxSize(CONNECTIONS_MAX))
                        .build());
    }

    @Override
    String version() {
        Document info = client.getDatabase("admin").runCommand(new Document("buildInfo", 1));
        // FerretDB tells two, the other one for the sake of clients.
        String ferret = info.getString("ferretdbVersion");
        return ferret != null ? "FerretDB " + ferret : "MongoDB " + info.getString("version");
    }

    @Override
    void open() {
        database = client.getDatabase(options.get("database"));
        rows = database.getCollection(table);
        String journal = options.get("journal");
        if (journal != null) {
            rows = rows.withWriteConcern(WriteConcern.W1.withJournal(journal.equals("on")));
        }
    }

    @Override
    void create() {
        rows.drop();
        database.createCollection(table);
        for (Column column : columns) {
            if (column.indexed()) {
                rows.createIndex(Indexes.ascending(column.name()));
            }
        }
    }

    @Override
    void settle(String until) {
        if (until.equals("visible")) {
            return;
        }
        if (until.equals("compacted")) {
            database.runCommand(new Document("compact", table).append("force", true));
        }
        try {
            client.getDatabase("admin").runCommand(new Document("fsync", 1));
        } catch (MongoCommandException error) {
            // FerretDB has none: its storage writes out every commit.
            if (error.getErrorCode() != COMMAND_NOT_FOUND) {
                throw error;
            }
        }
    }

    @Override
    Long size() {
        Document stats = database.runCommand(new Document("collStats", table));
        Object data = stats.get("storageSize");
        Object indexes = stats.get("totalIndexSize");
        return data instanceof Number a && indexes instanceof Number b
                ? a.longValue() + b.longValue()
                : null;
    }

    @Override
    void insert(List<List<Object>> all) {
        List<Document> documents = new ArrayList<>(all.size());
        for (List<Object> row : all) {
            Document document = new Document("_id", row.get(0));
            for (int at = 0; at < columns.size(); at++) {
                document.append(columns.get(at).name(), row.get(at + 1));
            }
            documents.add(document);
        }
        if (documents.size() == 1) {
            rows.insertOne(documents.get(0));
        } else {
            rows.insertMany(documents);
        }
    }

    @Override
    List<Object> read(Object key) {
        Document found = rows.find(Filters.eq(key)).limit(1).first();
        return found == null ? null : row(found);
    }

    @Override
    boolean update(Object key, List<Cell> changes) {
        return rows.updateOne(Filters.eq(key), new Document("$set", document(changes)))
                        .getMatchedCount()
                > 0;
    }

    @Override
    List<List<Object>> scan(Object from, int rowsMax) {
        List<List<Object>> found = new ArrayList<>();
        try (MongoCursor<Document> cursor =
                rows.find(Filters.gte("_id", from))
                        .sort(Sorts.ascending("_id"))
                        .limit(rowsMax)
                        .cursor()) {
            cursor.forEachRemaining(document -> found.add(row(document)));
        }
        return found;
    }

    @Override
    long count(List<Cell> conditions) {
        Document asked = new Document("count", table).append("query", document(conditions));
        return ((Number) database.runCommand(asked).get("n")).longValue();
    }

    @Override
    void delete(Object key) {
        rows.deleteOne(Filters.eq(key));
    }

    @Override
    boolean isUnreachable(Exception failure) {
        return failure instanceof MongoSocketException
                || failure instanceof MongoTimeoutException
                || failure instanceof MongoNotPrimaryException
                || failure instanceof MongoNodeIsRecoveringException
                || failure instanceof MongoException && failure.getCause() instanceof java.io.IOException;
    }

    private Document document(List<Cell> cells) {
        Document document = new Document();
        for (Cell cell : cells) {
            document.append(columns.get(cell.column()).name(), cell.value());
        }
        return document;
    }

    private List<Object> row(Document document) {
        List<Object> row = new ArrayList<>(columns.size() + 1);
        row.add(whole(document.get("_id")));
        for (Column column : columns) {
            row.add(whole(document.get(column.name())));
        }
        return row;
    }

    /** FerretDB may answer a whole number as a double. */
    private static Object whole(Object value) {
        return value instanceof Number number ? (Object) number.longValue() : value;
    }
}
