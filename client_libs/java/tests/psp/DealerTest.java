// SPDX-License-Identifier: PostgreSQL
package psp;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/** ZeroMQ's protocol at a ROUTER that this test plays. Ends with an error if something is wrong. */
public final class DealerTest {
    private static final Duration WAIT = Duration.ofMinutes(1);
    private static final int HANDSHAKE = 64 + 2 + 28;

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    private static void check(boolean holds, Object found) {
        if (!holds) throw new AssertionError(found);
    }

    private static byte[] greeting() {
        byte[] greeting = new byte[64];
        greeting[0] = (byte) 0xff;
        greeting[9] = 0x7f;
        greeting[10] = 3;
        greeting[11] = 1;
        System.arraycopy(bytes("NULL"), 0, greeting, 12, 4);
        return greeting;
    }

    /** Says all this to the first who connects; what it hears after the handshake. */
    private static CompletableFuture<String> listen(ServerSocket server, byte[] says, int expects) {
        return CompletableFuture.supplyAsync(() -> {
            try (Socket socket = server.accept(); InputStream input = socket.getInputStream()) {
                socket.getOutputStream().write(says);
                byte[] heard = input.readNBytes(HANDSHAKE + expects);
                return new String(heard, HANDSHAKE, heard.length - HANDSHAKE, StandardCharsets.ISO_8859_1);
            } catch (IOException error) {
                throw new AssertionError(error);
            }
        });
    }

    private static String endpoint(ServerSocket server) {
        return "tcp://127.0.0.1:" + server.getLocalPort();
    }

    private static void heartbeatsAreAnswered() throws Exception {
        ByteArrayOutputStream says = new ByteArrayOutputStream();
        says.writeBytes(greeting());
        says.writeBytes(bytes("\4\51\5READY\13Socket-Type\0\0\0\6ROUTER\10Identity\0\0\0\0"));
        says.writeBytes(bytes("\4\10\4PING\0\36x" + "\1\1a\0\1b"));  // a message of two frames is nobody's
        says.writeBytes(bytes("\2\0\0\0\0\0\0\1\0" + "m".repeat(256)));
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            CompletableFuture<String> heard = listen(server, says.toByteArray(), 4 + 8);
            try (Dealer dealer = new Dealer(endpoint(server), WAIT)) {
                dealer.send(bytes("ab"));
                byte[] message = dealer.receive(WAIT);
                check(new String(message, StandardCharsets.ISO_8859_1).equals("m".repeat(256)), message.length);
                check(heard.get().equals("\0\2ab\4\6\4PONGx"), heard.get());
            }
        }
    }

    private static void whoSpeaksNoZeroMqIsRefused() throws Exception {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            listen(server, new byte[64], 0);
            for (String endpoint : new String[] {endpoint(server), "ipc:///nowhere"}) {
                try (Dealer dealer = new Dealer(endpoint, WAIT)) {
                    throw new AssertionError(dealer);
                } catch (IOException expected) {
                    check(expected.getMessage().startsWith("psp:"), expected);
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        heartbeatsAreAnswered();
        whoSpeaksNoZeroMqIsRefused();
    }
}
