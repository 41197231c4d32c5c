// SPDX-License-Identifier: PostgreSQL

package psp

import (
	"io"
	"net"
	"testing"
	"time"
)

const wait = time.Minute

// A ROUTER that says this after the handshake; it gives back what the client has sent to it.
func router(t *testing.T, says string, expects int) (string, chan string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	heard := make(chan string, 1)
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		greeting := make([]byte, 64)
		greeting[0], greeting[9], greeting[10], greeting[11] = 0xff, 0x7f, 3, 1
		copy(greeting[12:], "NULL")
		ready := "\x04\x29\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER\x08Identity\x00\x00\x00\x00"
		_, _ = connection.Write(append(greeting, ready+says...))
		read := make([]byte, 64+2+28+expects)
		if _, err = io.ReadFull(connection, read); err == nil {
			heard <- string(read[64+2+28:])
		}
	}()
	return "tcp://" + listener.Addr().String(), heard
}

func TestHeartbeatsAreAnswered(t *testing.T) {
	long := "\x02\x00\x00\x00\x00\x00\x00\x01\x00" + string(make([]byte, 256))
	endpoint, heard := router(t, "\x04\x08\x04PING\x00\x1ex"+"\x01\x01a\x00\x01b"+long, 4+8)
	socket, err := dial(endpoint, wait)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.close()
	if err = socket.send([]byte("ab"), time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	message, err := socket.receive() // the one of two frames is nobody's
	if err != nil || len(message) != 256 {
		t.Fatalf("%q, %v", message, err)
	}
	if told := <-heard; told != "\x00\x02ab\x04\x06\x04PONGx" {
		t.Fatalf("%q", told)
	}
}

func TestWhoSpeaksNoZeroMQIsRefused(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if connection, err := listener.Accept(); err == nil {
			_, _ = connection.Write(make([]byte, 64))
			_, _ = io.Copy(io.Discard, connection)
			connection.Close()
		}
	}()
	if _, err = dial("tcp://"+listener.Addr().String(), wait); err == nil {
		t.Fatal("accepted")
	}
	if _, err = dial("inproc://x", wait); err == nil {
		t.Fatal("accepted")
	}
}
