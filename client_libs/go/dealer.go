// SPDX-License-Identifier: PostgreSQL

package psp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"time"
)

// ZeroMQ's DEALER socket, as little as a request and its reply need: ZMTP 3.0 without security, messages of one frame.
type dealer struct {
	connection net.Conn
	reader     *bufio.Reader
}

const (
	flagMore      = 1
	flagLong      = 2
	flagCommand   = 4
	frameBytesMax = 1 << 20
)

func dial(endpoint string, timeout time.Duration) (*dealer, error) {
	network, address, found := strings.Cut(endpoint, "://")
	if !found || network != "tcp" && network != "ipc" {
		return nil, errors.New("psp: the daemon listens at " + endpoint + ": neither tcp nor ipc")
	}
	if network == "ipc" {
		network = "unix"
	}
	connection, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	made := &dealer{connection: connection, reader: bufio.NewReader(connection)}
	_ = connection.SetDeadline(time.Now().Add(timeout))
	if err = made.handshake(); err != nil {
		connection.Close()
		return nil, err
	}
	return made, nil
}

func (d *dealer) close() { d.connection.Close() }

func (d *dealer) handshake() error {
	greeting := make([]byte, 64)
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
	copy(greeting[12:], "NULL")
	if _, err := d.connection.Write(greeting); err != nil {
		return err
	}
	if _, err := io.ReadFull(d.reader, greeting); err != nil {
		return err
	}
	if greeting[0] != 0xff || greeting[10] < 3 || string(greeting[12:17]) != "NULL\x00" {
		return errors.New("psp: no ZeroMQ of version 4 without security")
	}
	if err := d.write(flagCommand, []byte("\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER")); err != nil {
		return err
	}
	flags, frame, err := d.read()
	if err == nil && (flags&flagCommand == 0 || !strings.HasPrefix(string(frame), "\x05READY")) {
		err = errors.New("psp: the daemon's ZeroMQ refuses the connection")
	}
	return err
}

func (d *dealer) write(flags byte, frame []byte) error {
	data := []byte{flags, byte(len(frame))}
	if len(frame) > 255 {
		data = binary.BigEndian.AppendUint64([]byte{flags | flagLong}, uint64(len(frame)))
	}
	_, err := d.connection.Write(append(data, frame...))
	return err
}

func (d *dealer) read() (byte, []byte, error) {
	flags, err := d.reader.ReadByte()
	if err != nil {
		return 0, nil, err
	}
	size := make([]byte, 8)
	if flags&flagLong != 0 {
		_, err = io.ReadFull(d.reader, size)
	} else {
		size[7], err = d.reader.ReadByte()
	}
	length := binary.BigEndian.Uint64(size)
	if err != nil || length > frameBytesMax {
		return 0, nil, errors.New("psp: a frame that is cut off or too long")
	}
	frame := make([]byte, length)
	_, err = io.ReadFull(d.reader, frame)
	return flags, frame, err
}

func (d *dealer) send(message []byte, deadline time.Time) error {
	_ = d.connection.SetDeadline(deadline)
	return d.write(0, message)
}

// The next message of one frame. Answers the daemon's heartbeats meanwhile.
func (d *dealer) receive() ([]byte, error) {
	isPart := false
	for {
		flags, frame, err := d.read()
		if err != nil {
			return nil, err
		}
		if flags&flagCommand == 0 {
			wasPart := isPart
			isPart = flags&flagMore != 0
			if !wasPart && !isPart {
				return frame, nil
			}
		} else if strings.HasPrefix(string(frame), "\x04PING") && len(frame) >= 7 {
			if err = d.write(flagCommand, append([]byte("\x04PONG"), frame[7:]...)); err != nil {
				return nil, err
			}
		}
	}
}
