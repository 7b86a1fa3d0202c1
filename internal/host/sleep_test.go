package host

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why, began := errors.New("why"), time.Now()
		ctx, end := context.WithCancelCause(t.Context())
		if err := Sleep(ctx, time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("it lasted %v, %v", time.Since(began), err)
		}
		time.AfterFunc(time.Minute, func() { end(why) })
		if err := Sleep(ctx, time.Hour); err != why || time.Since(began) != time.Hour+time.Minute {
			t.Errorf("it ended after %v, %v", time.Since(began)-time.Hour, err)
		}
	})
}
