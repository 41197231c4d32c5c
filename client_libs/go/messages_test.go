// SPDX-License-Identifier: PostgreSQL

package psp

import (
	"bytes"
	"strings"
	"testing"
)

// What protoc's own code writes and reads for proto/psp_client.proto; client_libs/python/tests/test_messages.py has the same.

const (
	txText  = "00112233-4455-6677-8899-aabbccddeeff"
	txBytes = "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"
)

func TestRequest(t *testing.T) {
	message, err := request(300, kindCommit, txText)
	if err != nil || !bytes.Equal(message, []byte("\x08\xac\x02\x10\x01\x1a\x10"+txBytes)) {
		t.Fatalf("%q, %v", message, err)
	}
	for _, wrong := range []string{"", "00112233", strings.Repeat("x", 32)} {
		if _, err = request(1, kindAbort, wrong); err == nil {
			t.Errorf("%q is no id", wrong)
		}
	}
}

func TestReply(t *testing.T) {
	found, err := readReply([]byte("\x08\xac\x02\x10\x01\x1a\x10" + txBytes + "\x20\xff\xff\xff\xff\x07"))
	if err != nil || found != (reply{requestID: 300, status: statusCommitted, globalT: 1<<31 - 1}) {
		t.Fatalf("%v, %v", found, err)
	}
}

func TestReplyWithTextsAndUnknownFields(t *testing.T) {
	unknown := "\x4a\x02xx\x51" + strings.Repeat("\x00", 8) + "\x5d" + strings.Repeat("\x00", 4)
	texts := "\x2a\x0540001\x32\x02\xc3\xbc\x3a\x01d\x42\x01h"
	found, err := readReply([]byte("\x08\x01" + unknown + "\x10\x02" + texts))
	expected := reply{requestID: 1, status: statusAborted, texts: [4]string{"40001", "ü", "d", "h"}}
	if err != nil || found != expected {
		t.Fatalf("%v, %v", found, err)
	}
}

func TestGarbageIsNoReply(t *testing.T) {
	for _, data := range []string{"\x08", "\x1a\x10short", "\x10\x63", "\x0b", strings.Repeat("\xff", 20)} {
		if found, err := readReply([]byte(data)); err == nil {
			t.Errorf("%q: %v", data, found)
		}
	}
}
