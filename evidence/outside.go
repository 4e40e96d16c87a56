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
// file is written in the folder "arriving", is durable there before its record is written, and goes beside the segment
// in the record's turn; a crash may have left it where it was. So every whole record has its contents. What no record
// has is cleared when the store is opened again, in "arriving" and beside the last segment.
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
	if err = errors.Join(err, f.Close()); err == nil {
		err = syncFolder(d.root, arriving)
	}
	if err != nil {
		o.remove()
		return nil, err
	}
	return o, nil
}

func (d *disk) createFile(name string) (outputFile, error) {
	return d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// moveTo puts the file into the folder of a segment. That need not be durable: see tidyContents.
func (o *outsider) moveTo(segment uint64) error {
	to := &outsider{o.root, fmt.Sprintf(contentsFolder, segment), o.id}
	if err := o.root.Rename(o.name(), to.name()); err != nil {
		return err
	}
	*o = *to
	return nil
}

func (o *outsider) remove() error { return o.root.Remove(o.name()) }

// tidyContents brings contents that a crash has left in "arriving" to their records in the last segment, and removes
// those that no record has. Beside damage they stay: one of them may be what a damaged record had.
func (d *disk) tidyContents(s *segment, f io.ReaderAt) error {
	folder := fmt.Sprintf(contentsFolder, s.number)
	there, err := d.contentsIn(folder)
	if err != nil {
		return err
	}
	left, err := d.contentsIn(arriving)
	if err != nil {
		return err
	}
	for _, e := range s.live.entries {
		if e.flags&outside == 0 {
			continue
		}
		h, err := readHead(f, e.at, s.live.Size, s.mark)
		if err != nil {
			return err
		}
		if o := (&outsider{d.root, arriving, h.outside}); left[o.id] && !there[o.id] {
			if err := o.moveTo(s.number); err != nil {
				return err
			}
			delete(left, o.id)
		}
		delete(there, h.outside)
	}
	if err := syncFolder(d.root, folder); err != nil {
		return err
	}
	if len(s.live.Damaged) > 0 {
		there = nil
	}
	return errors.Join(d.removeContents(folder, there), d.removeContents(arriving, left))
}

// contentsIn returns which files of contents are in a folder.
func (d *disk) contentsIn(folder string) (map[fileID]bool, error) {
	entries, err := fs.ReadDir(d.root.FS(), folder)
	if err != nil {
		return nil, err
	}
	there := make(map[fileID]bool)
	for _, e := range entries {
		if id, ok := fileIDOf(e.Name()); ok {
			there[id] = true
		}
	}
	return there, nil
}

func (d *disk) removeContents(folder string, ids map[fileID]bool) error {
	for id := range ids {
		if err := (&outsider{d.root, folder, id}).remove(); err != nil {
			return err
		}
	}
	return nil
}

// makeFolderIn makes a folder, durably, where it is missing.
func makeFolderIn(root *os.Root, name string) error {
	err := root.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncFolder(root, ".")
}
