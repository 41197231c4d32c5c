import org.postgresql.ds.PGSimpleDataSource;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.IllegalTransactionStateException;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** Spring: units of work. Arguments: the URL's part behind the driver, how many, how their names begin. */
public final class SpringMain {
    public static void main(String[] arguments) throws Exception {
        String[] parts = arguments[0].split("@");
        PGSimpleDataSource source = new PGSimpleDataSource();
        source.setUrl("jdbc:postgresql://" + parts[1] + "?user=" + parts[0] + "&ApplicationName=retried");
        JdbcTemplate jdbc = new JdbcTemplate(source);
        SpringRetrying retrying = new SpringRetrying(new DataSourceTransactionManager(source), jdbc);
        refusesAnOpenTransaction(retrying);
        for (int i = 0; i < Integer.parseInt(arguments[1]); i++) {
            String name = arguments[2] + i;
            retrying.run(() -> {
                jdbc.update("UPDATE counter SET value = value + 1");
                return jdbc.update("INSERT INTO unit (name) VALUES (?)", name);
            });
        }
    }

    private static void refusesAnOpenTransaction(SpringRetrying retrying) throws Exception {
        TransactionSynchronizationManager.setActualTransactionActive(true);
        try {
            retrying.run(() -> null);
            throw new AssertionError("it ran");
        } catch (IllegalTransactionStateException expected) {
            TransactionSynchronizationManager.setActualTransactionActive(false);
        }
    }
}
