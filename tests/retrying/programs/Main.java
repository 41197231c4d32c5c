import java.sql.Statement;
import org.postgresql.ds.PGSimpleDataSource;

/** JDBC: adds one to a counter again and again. Arguments: the URL's part behind the driver, how often. */
public final class Main {
    public static void main(String[] arguments) throws Exception {
        String[] parts = arguments[0].split("@");
        PGSimpleDataSource source = new PGSimpleDataSource();
        source.setUrl("jdbc:postgresql://" + parts[1] + "?user=" + parts[0] + "&ApplicationName=retried");
        for (int i = 0; i < Integer.parseInt(arguments[1]); i++) {
            Retrying.run(source, connection -> {
                try (Statement statement = connection.createStatement()) {
                    statement.executeUpdate("UPDATE counter SET value = value + 1");
                }
            });
        }
    }
}
