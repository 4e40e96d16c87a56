// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
)

// Contents that are too large to be written while others wait for their turn lie outside the segment of their record:
// in a file of their own with the contents and their check, in the folder NNNNNNNN.contents beside the segment. Such a
// file is written in the folder "arriving", is durable before its record is written, and goes beside the segment in the
// record's turn. So every whole record has its contents, and what a crash has left is in one of two places that are
// cleared when the store is opened again: all of "arriving", and beside the last segment what has no record.
const (
	inside         = 256 << 10 // contents up to this size lie in the segment
	contentsFolder = "%08d.contents"
	arriving       = "arriving"
	copySize       = 256 << 10
)

// fileID is the name of a file of contents: 16 hexadecimal digits.
type fileID uint64

func (id fileID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// fileIDOf returns the id of a file of contents by its name.
func fileIDOf(name string) (fileID, bool) {
	id, err := strconv.ParseUint(name, 16, 64)
	return fileID(id), err == nil && fileID(id).String() == name
}

// outputFile is a file of contents that is being written.
type outputFile interface {
	io.WriteCloser
	Sync() error
}

// outsider is a file of contents whose record is not written yet.
type outsider struct {
	root   *os.Root
	folder string
	id     fileID
}

func (o *outsider) name() string { return o.folder + "/" + o.id.String() }

// writeOutside writes contents to a file of their own, durably. Where it fails, nothing is left.
func (d *disk) writeOutside(ctx context.Context, c *contents) (*outsider, error) {
	o := &outsider{d.root, arriving, fileID(rand.Uint64() | 1)}
	f, err := d.create(o.name())
	if err != nil {
		return nil, err
	}
	err = c.copyTo(ctx, f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		o.remove()
		return nil, err
	}
	return o, nil
}

// makeArriving makes the folder for contents on their way, or clears it of what a crash has left.
func makeArriving(root *os.Root) error {
	if err := root.RemoveAll(arriving); err != nil {
		return err
	}
	return root.Mkdir(arriving, 0o700)
}

func (d *disk) createFile(name string) (outputFile, error) {
	return d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// moveTo puts the file into the folder of a segment, durably.
func (o *outsider) moveTo(segment uint64) error {
	to := &outsider{o.root, fmt.Sprintf(contentsFolder, segment), o.id}
	if err := o.root.Rename(o.name(), to.name()); err != nil {
		return err
	}
	*o = *to
	return syncFolder(o.root, o.folder)
}

func (o *outsider) remove() error { return o.root.Remove(o.name()) }

// makeContentsFolder makes the folder for the contents of a segment, durably, where it is missing.
func makeContentsFolder(root *os.Root, segment uint64) error {
	err := root.Mkdir(fmt.Sprintf(contentsFolder, segment), 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncFolder(root, ".")
}
