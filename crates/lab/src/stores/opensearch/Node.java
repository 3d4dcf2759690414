import java.util.List;

import org.codelibs.opensearch.runner.OpenSearchRunner;

/**
 * Runs one node of OpenSearch until the process is asked to end: DIRECTORY CONFIGURATION
 * SETTING=VALUE…
 *
 * <p>No registry of packages has OpenSearch's own distribution. The library that runs it in tests
 * has a program too, but one that takes no settings.
 */
class Node {
    public static void main(String[] arguments) throws Exception {
        List<String> settings = List.of(arguments).subList(2, arguments.length);
        OpenSearchRunner runner = new OpenSearchRunner();
        runner.onBuild((number, builder) -> {
            for (String setting : settings) {
                int end = setting.indexOf('=');
                builder.put(setting.substring(0, end), setting.substring(end + 1));
            }
        });
        // Not the port that is used, which is a setting, but it would have to be free.
        runner.setMaxHttpPort(-1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> close(runner)));
        runner.build("-basePath", arguments[0], "-confPath", arguments[1], "-numOfNode", "1");
        Thread.currentThread().join();
    }

    private static void close(OpenSearchRunner runner) {
        try {
            runner.close();
        } catch (java.io.IOException e) {
            e.printStackTrace();
        }
    }
}
