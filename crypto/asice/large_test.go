// SPDX-License-Identifier: Apache-2.0

package asice

import (
	"bufio"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha512"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// generated opens octets that cannot be packed, always the same for a number.
func generated(number uint64, size int64) Opener {
	return func() (io.ReadCloser, error) {
		var key [16]byte
		binary.LittleEndian.PutUint64(key[:], number)
		block, err := aes.NewCipher(key[:])
		if err != nil {
			return nil, err
		}
		stream := cipher.StreamReader{S: cipher.NewCTR(block, make([]byte, block.BlockSize())), R: nothing{}}
		return io.NopCloser(io.LimitReader(stream, size)), nil
	}
}

// nothing reads zeros.
type nothing struct{}

func (nothing) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestLarge writes, reads and verifies a container of 4.6 GiB with attachments that need ZIP64 in each way: one that is
// longer than 4 GiB even packed, one behind it, and one that is shorter once it is packed. It needs 5 GiB of disk and two
// or three minutes, and so it asks for a word:
//
//	FAIRWAY_LARGE=1 go test -run TestLarge -v ./crypto/asice
func TestLarge(t *testing.T) {
	if os.Getenv("FAIRWAY_LARGE") == "" || testing.Short() {
		t.Skip("FAIRWAY_LARGE is not set")
	}
	attachments := []Opener{
		generated(1, 4<<30+100<<20), generated(2, 1000),
		func() (io.ReadCloser, error) { return io.NopCloser(io.LimitReader(nothing{}, 4<<30+1)), nil },
	}
	c := &Container{Time: recorded, Message: of(messageText), Attachments: make(map[int]Opener)}
	parts := partsOf(crypto.SHA512, messageText)
	for i, open := range attachments {
		c.Attachments[i+1] = open
		h := sha512.New()
		r, _ := open()
		if _, err := io.Copy(h, r); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, crypto.Part{Name: crypto.Attachment(i + 1), Digest: crypto.SHA512, Sum: h.Sum(nil)})
	}
	sig, err := signer().Sign(context.Background(), parts, crypto.Direct)
	if err != nil {
		t.Fatal(err)
	}
	c.Signature = *sig
	stamp(t, c)

	name := filepath.Join(t.TempDir(), "large.asice")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	buffered := bufio.NewWriterSize(file, 1<<20)
	if err := c.Write(buffered); err != nil {
		t.Fatal(err)
	}
	if err := buffered.Flush(); err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d octets", info.Size())
	again, err := Open(file, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	p, err := again.Verify()
	if err != nil || len(p.Proved) != 4 {
		t.Fatalf("verifying: %v", err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("it took %d octets of memory", n)
	}
	t.Run("unzip", func(t *testing.T) { run(t, "unzip", "-tq", name) })
	t.Run("zipfile", func(t *testing.T) { run(t, "python3", "-m", "zipfile", "-t", name) })
}

// run runs a program of others, or skips the test where it is not installed.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skip(program + " is not installed")
	}
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", program, err, out)
	}
	return string(out)
}
