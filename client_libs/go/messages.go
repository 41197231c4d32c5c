// SPDX-License-Identifier: PostgreSQL

package psp

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
)

// The messages of proto/psp_client.proto, by hand: few and flat.

const (
	kindCommit  = 1
	kindOutcome = 2
	kindAbort   = 3
)

const (
	statusCommitted = 1
	statusAborted   = 2
	statusFailed    = 6
)

var statusNames = []string{"unspecified", committed, "aborted", "running", "waiting", "pending", "failed"}

// A ClientReply. texts: sqlstate, message, detail, hint.
type reply struct {
	requestID uint64
	status    uint64
	globalT   int64
	texts     [4]string
}

func (r reply) error(fallback string) error {
	err := &Error{Code: r.texts[0], Message: r.texts[1], Detail: r.texts[2], Hint: r.texts[3]}
	if err.Code == "" {
		err.Code = fallback
	}
	if err.Message == "" {
		err.Message = "psp: the transaction is aborted"
	}
	return err
}

// Whether it says nothing of the transaction's end: the same request is sent again.
func (r reply) isNoAnswer() bool {
	code := r.texts[0]
	return r.status == statusFailed && (code == "08007" || code == "57P03" || code == "25001")
}

// A ClientRequest. id is a uuid's text.
func request(requestID uint64, kind byte, id string) ([]byte, error) {
	bytes, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil || len(bytes) != 16 {
		return nil, errors.New("psp: " + id + " is no transaction's id")
	}
	message := binary.AppendUvarint([]byte{0x08}, requestID)
	return append(append(message, 0x10, kind, 0x1a, 16), bytes...), nil
}

var errNoReply = errors.New("psp: a message that is no reply")

// Fields of later versions are skipped.
func readReply(data []byte) (reply, error) {
	var found reply
	for len(data) > 0 {
		tag, rest, ok := varint(data)
		if !ok {
			return found, errNoReply
		}
		var value uint64
		var bytes []byte
		switch data = rest; tag & 7 {
		case 0:
			value, data, ok = varint(data)
		case 1:
			_, data, ok = cut(data, 8)
		case 2:
			if value, data, ok = varint(data); ok {
				bytes, data, ok = cut(data, value)
			}
		case 5:
			_, data, ok = cut(data, 4)
		default:
			ok = false
		}
		if !ok {
			return found, errNoReply
		}
		switch tag {
		case 1 << 3:
			found.requestID = value
		case 2 << 3:
			found.status = value
		case 4 << 3:
			found.globalT = int64(value)
		case 5<<3 | 2, 6<<3 | 2, 7<<3 | 2, 8<<3 | 2:
			found.texts[tag>>3-5] = string(bytes)
		}
	}
	if found.status >= uint64(len(statusNames)) {
		return found, errNoReply
	}
	return found, nil
}

func varint(data []byte) (uint64, []byte, bool) {
	value, length := binary.Uvarint(data)
	if length <= 0 {
		return 0, nil, false
	}
	return value, data[length:], true
}

func cut(data []byte, length uint64) ([]byte, []byte, bool) {
	if length > uint64(len(data)) {
		return nil, nil, false
	}
	return data[:length], data[length:], true
}
