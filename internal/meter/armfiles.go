package meter

import (
	"errors"
	"fmt"
)

// armFiles are the files below /proc/net that a meter reads for each arm: the
// named ones of all the namespaces that count for it.
type armFiles [][]*file

// openArmFiles opens the named files; spaces picks the namespaces of an arm. On
// an error none stays open.
func openArmFiles(s Setup, spaces func(Arm) []string, names ...string) (armFiles, error) {
	var all armFiles
	for _, arm := range s.Arms {
		var of []*file
		for _, ns := range spaces(arm) {
			files, err := openNetFiles(s.Root, ns, names...)
			if err != nil {
				return nil, errors.Join(err, append(all, of).Close())
			}
			of = append(of, files...)
		}
		all = append(all, of)
	}
	return all, nil
}

// Close closes all files.
func (a armFiles) Close() error {
	var errs []error
	for _, files := range a {
		errs = append(errs, closeAll(files))
	}
	return errors.Join(errs...)
}

// sum clears dst and lets parse add to it what each file of an arm says.
func (a armFiles) sum(arm int, dst []int64, parse func(b []byte, dst []int64) error) error {
	clear(dst)
	for _, f := range a[arm] {
		b, err := f.read()
		if err != nil {
			return err
		}
		if err := parse(b, dst); err != nil {
			return fmt.Errorf("parse %s: %w", f.f.Name(), err)
		}
	}
	return nil
}
