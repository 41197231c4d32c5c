import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.postgresql.ds.PGSimpleDataSource;
import psp.Options;
import psp.Psp;
import psp.PspClient;

/**
 * The package psp: units of work in three threads. Arguments: how (jdbc or client), the URL's part behind the driver, how many, how their
 * names begin.
 */
public final class PackageMain {
    private static final Options PATIENT = new Options(
            200, Duration.ofMillis(10), Duration.ofMillis(300), Duration.ofMinutes(1), Duration.ofMillis(300));
    private static PGSimpleDataSource source;

    private static Psp.Work<Void> work(String name) {
        return connection -> {
            try (Statement statement = connection.createStatement()) {
                statement.executeUpdate("UPDATE counter SET value = value + 1");
            }
            String insert = "INSERT INTO unit (id, name) VALUES (nextval('unit_id'), ?)";
            try (PreparedStatement statement = connection.prepareStatement(insert)) {
                statement.setString(1, name);
                statement.executeUpdate();
            }
            return null;
        };
    }

    private static PspClient connect() throws InterruptedException {
        while (true) {  // sessions are ended all the time
            try {
                return new PspClient(source, PATIENT);
            } catch (SQLException error) {
                Thread.sleep(10);
            }
        }
    }

    /** In either mode. What is committed is so when it is asked again. */
    private static void byClient(List<String> names) throws Exception {
        try (PspClient client = connect()) {
            for (String name : names) {
                PspClient.Committed done = client.run(work(name));
                PspClient.Committed again = client.commit(done.id());
                String outcome = client.outcome(done.id());
                if (!again.equals(done) || !outcome.equals("committed")) throw new AssertionError(done + " " + again + " " + outcome);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        String[] parts = arguments[1].split("@");
        source = new PGSimpleDataSource();
        source.setUrl("jdbc:postgresql://" + parts[1] + "?user=" + parts[0] + "&ApplicationName=retried");
        ExecutorService threads = Executors.newFixedThreadPool(3);
        List<Future<?>> all = new ArrayList<>();
        for (int first = 0; first < 3; first++) {
            List<String> names = new ArrayList<>();
            for (int number = first; number < Integer.parseInt(arguments[2]); number += 3) names.add(arguments[3] + number);
            all.add(threads.submit(() -> {
                if (arguments[0].equals("client")) {
                    byClient(names);
                } else {
                    for (String name : names) Psp.run(source, work(name), PATIENT);
                }
                return null;
            }));
        }
        threads.shutdown();
        for (Future<?> one : all) one.get();
    }
}
