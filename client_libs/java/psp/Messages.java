// SPDX-License-Identifier: PostgreSQL
package psp;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.util.List;
import java.util.UUID;

/** The messages of proto/psp_client.proto, by hand: few and flat. */
final class Messages {
    static final int COMMIT = 1;
    static final int OUTCOME = 2;
    static final int COMMITTED = 1;
    static final int ABORTED = 2;
    static final int FAILED = 6;
    static final List<String> STATUS = List.of("unspecified", "committed", "aborted", "running", "waiting", "pending", "failed");

    private Messages() {}

    /** A ClientReply. */
    record Reply(long requestId, int status, long globalT, String sqlstate, String message, String detail, String hint) {
        SQLException error(String fallback) {
            String text = message.isEmpty() ? "psp: the transaction is aborted" : message;
            return new SQLException(detail.isEmpty() ? text : text + " (" + detail + ")", sqlstate.isEmpty() ? fallback : sqlstate);
        }

        /** Whether it says nothing of the transaction's end: the same request is sent again. */
        boolean isNoAnswer() {
            return status == FAILED && List.of("08007", "57P03", "25001").contains(sqlstate);
        }
    }

    /** A ClientRequest. */
    static byte[] request(long requestId, int kind, UUID id) {
        ByteBuffer message = ByteBuffer.allocate(32).put((byte) 0x08);
        for (; requestId > 0x7f; requestId >>>= 7) message.put((byte) (requestId & 0x7f | 0x80));
        message.put((byte) requestId).put((byte) 0x10).put((byte) kind).put((byte) 0x1a).put((byte) 16);
        message.putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits());
        byte[] bytes = new byte[message.position()];
        message.flip().get(bytes);
        return bytes;
    }

    /** Fields of later versions are skipped. Null: it is no reply. */
    static Reply reply(byte[] bytes) {
        ByteBuffer data = ByteBuffer.wrap(bytes);
        long[] numbers = new long[5];
        String[] texts = {"", "", "", ""};
        try {
            while (data.hasRemaining()) {
                long tag = varint(data);
                long field = tag >>> 3;
                int wireType = (int) (tag & 7);
                if (wireType == 0) {
                    long value = varint(data);
                    if (field < numbers.length) numbers[(int) field] = value;
                } else if (wireType == 1 || wireType == 5) {
                    take(data, wireType == 1 ? 8 : 4);
                } else if (wireType == 2) {
                    byte[] value = take(data, varint(data));
                    if (field >= 5 && field <= 8) texts[(int) field - 5] = new String(value, StandardCharsets.UTF_8);
                } else {
                    return null;
                }
            }
        } catch (RuntimeException cutOff) {
            return null;
        }
        if (numbers[2] < 0 || numbers[2] >= STATUS.size()) return null;
        return new Reply(numbers[1], (int) numbers[2], numbers[4], texts[0], texts[1], texts[2], texts[3]);
    }

    private static long varint(ByteBuffer data) {
        long value = 0;
        for (int place = 0; place < 70; place += 7) {
            byte next = data.get();
            value |= (next & 0x7fL) << place;
            if (next >= 0) return value;
        }
        throw new IllegalArgumentException("a varint that does not end");
    }

    private static byte[] take(ByteBuffer data, long length) {
        if (length < 0 || length > data.remaining()) throw new IllegalArgumentException("cut off");
        byte[] value = new byte[(int) length];
        data.get(value);
        return value;
    }
}
