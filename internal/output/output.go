// Package output writes files that are there when they are whole.
package output

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Resolve returns the name of the file behind links, which whoever renames another file to it
// replaces; and whether there is something that must not be replaced, such as a device or a
// pipe. The name may be that of no file yet. A folder is an error, syscall.EISDIR.
func Resolve(path string) (name string, special bool, err error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(path); err == nil {
			return "", false, fmt.Errorf("%s is a link to nothing", path)
		}
		return path, false, nil
	case err != nil:
		return "", false, err
	case st.IsDir():
		return "", false, &fs.PathError{Op: "create", Path: path, Err: syscall.EISDIR}
	case !st.Mode().IsRegular():
		return path, true, nil
	}
	name, err = filepath.EvalSymlinks(path)
	return name, false, err
}

// File writes a file that appears, or replaces another one, when write has returned without
// an error; what is special is written to. A new file is what the process's umask makes of
// 0666, another one keeps its mode.
func File(path string, write func(io.Writer) error) (err error) {
	name, special, err := Resolve(path)
	if err != nil {
		return err
	}
	if special {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := temporary(name)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = write(f)
	if st, old := os.Stat(name); err == nil && old == nil {
		err = f.Chmod(st.Mode().Perm())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// temporary creates a file beside another one. (os.CreateTemp does not ask the umask.)
func temporary(beside string) (*os.File, error) {
	for i := 0; ; i++ {
		f, err := os.OpenFile(filepath.Join(filepath.Dir(beside), fmt.Sprintf(".whylate-%d-%d", os.Getpid(), i)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		var path *fs.PathError
		switch {
		case err == nil:
			return f, nil
		case i < 1000 && errors.Is(err, fs.ErrExist):
			continue
		case errors.As(err, &path): // with a name that nobody asked for
			path.Op, path.Path = "create", beside
		}
		return nil, err
	}
}
