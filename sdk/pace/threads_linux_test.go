package pace

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/whylate/whylate/sdk/internal/quotatest"
)

// policies tells how many threads of the process have a policy, and the nice value of lowered ones.
func policies(t *testing.T) (idle, nice int) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		stat, err := os.ReadFile("/proc/self/task/" + task.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if f[38] == fmt.Sprint(schedIdle) { // field 41 of proc(5)
			idle++
		}
		if f[16] == fmt.Sprint(lowestNice) { // field 19
			nice++
		}
	}
	return idle, nice
}

func TestThreadsOfTheBackgroundAreLoweredAndNoOthers(t *testing.T) {
	for _, way := range []Way{Lowered, Nice} {
		t.Run(way.String(), func(t *testing.T) {
			p := pacer(t, Options{Way: way})
			const n = 10
			var ready sync.WaitGroup
			ready.Add(n)
			for i := 0; i < n; i++ {
				start(t, p, func(ctx context.Context) {
					if syscall.Gettid() == syscall.Getpid() {
						t.Error("the main thread is lowered")
					}
					// What the background starts is the foreground's, and runs on threads that are not lowered,
					// new ones too.
					for j := 0; j < 5; j++ {
						ready.Add(1)
						go func() {
							runtime.LockOSThread()
							defer runtime.UnlockOSThread()
							policy, _, _ := syscall.RawSyscall(syscall.SYS_SCHED_GETSCHEDULER, 0, 0, 0)
							raw, _ := syscall.Getpriority(0, 0)
							if policy == schedIdle || raw == 20-lowestNice {
								t.Error("a goroutine that the background started is on a lowered thread")
							}
							ready.Done()
						}()
					}
					p.Blocking(ctx, func() { ready.Done(); <-ctx.Done() })
				})
			}
			ready.Wait()
			// The thread that New tried may not have ended yet.
			await(t, "as many threads are lowered as there are functions", func() bool {
				idle, nice := policies(t)
				return way == Lowered && idle == n || way == Nice && nice == n
			})
			stop(t, p)
			await(t, "no lowered thread is left", func() bool {
				idle, nice := policies(t)
				return idle == 0 && nice == 0
			})
		})
	}
}

// A function that goes on after Stop has given up is raised: the test runs as root, or the kernel says no.
func TestThreadsOfWhatDoesNotEndAreRaised(t *testing.T) {
	for _, way := range []Way{Lowered, Nice} {
		t.Run(way.String(), func(t *testing.T) {
			p := pacer(t, Options{Way: way})
			release, runs := make(chan bool), make(chan bool)
			start(t, p, func(context.Context) { close(runs); <-release })
			<-runs
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			err := p.Stop(ctx)
			if err == nil {
				t.Error("Stop says that all has ended")
			}
			if refused := strings.Contains(err.Error(), "stays lowered"); refused && os.Geteuid() == 0 {
				t.Error("root may raise threads: ", err)
			} else if !refused {
				await(t, "no lowered thread is left", func() bool {
					idle, nice := policies(t)
					return idle+nice == 0
				})
			}
			close(release)
		})
	}
}

func TestASleepingThreadIsSeen(t *testing.T) {
	p := pacer(t, Options{})
	release, runs := make(chan bool), make(chan bool)
	start(t, p, func(context.Context) { close(runs); <-release })
	<-runs
	w := p.all()[0]
	await(t, "it sleeps", func() bool { sleeps, known := w.thread.sleeps(); return sleeps && known })
	close(release)
	start(t, p, func(ctx context.Context) {
		for p.Pace(ctx) == nil {
		}
	})
	await(t, "one runs", func() bool {
		for _, w := range p.all() {
			if sleeps, known := w.thread.sleeps(); known && !sleeps {
				return true
			}
		}
		return false
	})
	if _, known := new(thread).sleeps(); known {
		t.Error("a thread that was not lowered is known")
	}
}

const child = "WHYLATE_PACE_CHILD"

// Inside a real quota nothing hangs either, and the background leaves a part of it.
func TestARealQuotaIsSharedAndNothingHangs(t *testing.T) {
	if quotatest.InGroup(child) {
		p := pacer(t, Options{Slice: minSlice})
		for end := time.Now().Add(time.Minute); p.State().Slowed < 5 && time.Now().Before(end); {
			hang(t, p, 8, 5)
		}
		fmt.Printf("allowed at most %.1f cores\n", p.State().Allowance)
		return
	}
	_, procs := quotatest.Group(t, 50_000)
	out := quotatest.Child(t, procs, child)
	// There are half a core, and a foreground that would use more.
	if !strings.Contains(out, "allowed at most 0.") {
		t.Error(out)
	}
}
