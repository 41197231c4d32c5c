// SPDX-License-Identifier: PostgreSQL
package psp;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.UUID;

/** The messages, byte by byte: client_libs/python/tests/test_messages.py has the same. Ends with an error if one is wrong. */
public final class MessagesTest {
    private static final String TX = "\0\21\42\63\104\125\146\167\210\231\252\273\314\335\356\377";

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    private static void check(boolean holds, Object found) {
        if (!holds) throw new AssertionError(found);
    }

    public static void main(String[] arguments) {
        byte[] request = Messages.request(300, Messages.COMMIT, UUID.fromString("00112233-4455-6677-8899-aabbccddeeff"));
        check(Arrays.equals(request, bytes("\10\254\2\20\1\32\20" + TX)), Arrays.toString(request));

        Messages.Reply reply = Messages.reply(bytes("\10\254\2\20\1\32\20" + TX + "\40\377\377\377\377\7"));
        check(new Messages.Reply(300, Messages.COMMITTED, (1L << 31) - 1, "", "", "", "").equals(reply), reply);

        String unknown = "\112\2xx" + "\121" + "\0".repeat(8) + "\135" + "\0".repeat(4);  // fields 9, 10 and 11
        String texts = "\52\00540001\62\2\303\274\72\1d\102\1h";
        reply = Messages.reply(bytes("\10\1" + unknown + "\20\2" + texts));
        check(new Messages.Reply(1, Messages.ABORTED, 0, "40001", "\u00fc", "d", "h").equals(reply), reply);

        for (String garbage : new String[] {"\10", "\32\20short", "\20\143", "\13", "\377".repeat(20)})
            check(Messages.reply(bytes(garbage)) == null, garbage);
    }
}
