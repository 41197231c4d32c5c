// SPDX-License-Identifier: PostgreSQL
package psp;

import java.time.Duration;

/**
 * How often and how long. attempts: of the work, the first one among them. firstPause: before the second attempt up to twice this, then the
 * bound doubles up to longestPause. timeout: after which an outcome that nobody tells counts as unknown. retryInterval: after which a request
 * of views mode is sent again.
 */
public record Options(int attempts, Duration firstPause, Duration longestPause, Duration timeout, Duration retryInterval) {
    public static final Options DEFAULTS =
            new Options(30, Duration.ofMillis(10), Duration.ofSeconds(2), Duration.ofSeconds(60), Duration.ofSeconds(2));
}
