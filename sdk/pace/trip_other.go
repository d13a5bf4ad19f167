//go:build !unix

package pace

import "errors"

// trip does not exist where pipes are not for the network poller.
type trip struct{}

func newTrip() (*trip, error) { return nil, errors.ErrUnsupported }

func (t *trip) wait() error { return errors.ErrUnsupported }

func (t *trip) close() {}
