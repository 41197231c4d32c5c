// SPDX-License-Identifier: PostgreSQL
package psp;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** ZeroMQ's DEALER socket, as little as a request and its reply need: ZMTP 3.0 without security, messages of one frame. */
final class Dealer implements Closeable {
    private static final int MORE = 1;
    private static final int LONG = 2;
    private static final int COMMAND = 4;
    private static final int FRAME_BYTES_MAX = 1 << 20;
    private static final String READY = "\5READY\13Socket-Type\0\0\0\6DEALER";

    private final Socket socket = new Socket();
    private DataInputStream input;
    private int flags;  // of the frame that was read last

    Dealer(String endpoint, Duration timeout) throws IOException {
        int colon = endpoint.lastIndexOf(':');
        if (!endpoint.startsWith("tcp://") || colon < 6) throw new IOException("psp: the daemon does not listen by TCP: " + endpoint);
        String host = endpoint.substring(6, colon).replaceAll("[\\[\\]]", "");
        try {
            int milliseconds = (int) Math.max(1, timeout.toMillis());
            socket.connect(new InetSocketAddress(host, Integer.parseInt(endpoint.substring(colon + 1))), milliseconds);
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(milliseconds);
            input = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
            shakeHands();
        } catch (IOException | RuntimeException error) {
            socket.close();
            throw error;
        }
    }

    private void shakeHands() throws IOException {
        byte[] greeting = new byte[64];
        greeting[0] = (byte) 0xff;
        greeting[9] = 0x7f;
        greeting[10] = 3;
        System.arraycopy("NULL".getBytes(StandardCharsets.US_ASCII), 0, greeting, 12, 4);
        socket.getOutputStream().write(greeting);
        input.readFully(greeting);
        boolean hasNoSecurity = new String(greeting, 12, 5, StandardCharsets.ISO_8859_1).equals("NULL\0");
        if (greeting[0] != (byte) 0xff || greeting[10] < 3 || !hasNoSecurity)
            throw new IOException("psp: no ZeroMQ of version 4 without security");
        write(COMMAND, READY.getBytes(StandardCharsets.ISO_8859_1));
        byte[] frame = read();
        if ((flags & COMMAND) == 0 || !isCommand(frame, "\5READY"))
            throw new IOException("psp: the daemon's ZeroMQ refuses the connection");
    }

    void send(byte[] message) throws IOException {
        write(0, message);
    }

    /** The next message of one frame; a SocketTimeoutException if none comes in time. Answers the daemon's heartbeats meanwhile. */
    byte[] receive(Duration timeout) throws IOException {
        socket.setSoTimeout((int) Math.max(1, timeout.toMillis()));
        boolean isPart = false;
        while (true) {
            byte[] frame = read();
            if ((flags & COMMAND) == 0) {
                boolean wasPart = isPart;
                isPart = (flags & MORE) != 0;
                if (!wasPart && !isPart) return frame;
            } else if (isCommand(frame, "\4PING") && frame.length >= 7) {
                ByteArrayOutputStream pong = new ByteArrayOutputStream();
                pong.writeBytes("\4PONG".getBytes(StandardCharsets.US_ASCII));
                pong.write(frame, 7, frame.length - 7);
                write(COMMAND, pong.toByteArray());
            }
        }
    }

    private static boolean isCommand(byte[] frame, String name) {
        return new String(frame, StandardCharsets.ISO_8859_1).startsWith(name);
    }

    private void write(int kind, byte[] frame) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream data = new DataOutputStream(bytes);
        data.writeByte(frame.length > 255 ? kind | LONG : kind);
        if (frame.length > 255) {
            data.writeLong(frame.length);
        } else {
            data.writeByte(frame.length);
        }
        data.write(frame);
        socket.getOutputStream().write(bytes.toByteArray());
    }

    private byte[] read() throws IOException {
        flags = input.readUnsignedByte();
        long length = (flags & LONG) != 0 ? input.readLong() : input.readUnsignedByte();
        if (length < 0 || length > FRAME_BYTES_MAX) throw new IOException("psp: a frame that is too long");
        byte[] frame = new byte[(int) length];
        input.readFully(frame);
        return frame;
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
