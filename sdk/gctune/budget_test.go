package gctune

import (
	"cmp"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/whylate/whylate/sdk/internal/groups"
)

// tree is a file system of the files named, with those of this process for version 2, in the group /pod/own.
func tree(files map[string]string) fstest.MapFS {
	all := map[string]string{
		"proc/self/cgroup":                   "0::/pod/own\n",
		"proc/self/mountinfo":                "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"sys/fs/cgroup/pod/own/cgroup.procs": strconv.Itoa(os.Getpid()) + "\n",
		"sys/fs/cgroup/pod/cgroup.procs":     "",
		"sys/fs/cgroup/pod/own/cgroup.type":  "domain\n",
		"sys/fs/cgroup/pod/cgroup.type":      "domain\n",
		"sys/fs/cgroup/pod/own/memory.max":   "max\n",
		"sys/fs/cgroup/pod/own/memory.high":  "max\n",
	}
	for name, text := range files {
		all[name] = text
	}
	fs := fstest.MapFS{}
	for name, text := range all {
		fs[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fs
}

func TestTheBudgetIsTheLowestLimitOfTheGroups(t *testing.T) {
	v1 := map[string]string{
		"proc/self/cgroup":    "5:memory:/pod/own\n4:cpu,cpuacct:/\n",
		"proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
		"sys/fs/cgroup/memory/pod/own/memory.limit_in_bytes": "536870912\n",
		"sys/fs/cgroup/memory/pod/memory.limit_in_bytes":     "9223372036854771712\n",
		"sys/fs/cgroup/memory/pod/own/cgroup.procs":          strconv.Itoa(os.Getpid()),
	}
	shared := map[string]string{"sys/fs/cgroup/pod/memory.max": "536870912\n", "sys/fs/cgroup/pod/side/cgroup.procs": "77\n"}
	for _, c := range []struct {
		name   string
		files  map[string]string
		o      Options
		bytes  int64
		source string
		err    error
		say    string
		set    int64 // the memory limit in force, 0 is none
	}{
		{"the user's comes first", map[string]string{"sys/fs/cgroup/pod/own/memory.max": "67108864"}, Options{Budget: 256 * mb, Reserve: 56 * mb}, 200 * mb, "Options.Budget", nil, "", 0},
		{"that of the own group", map[string]string{"sys/fs/cgroup/pod/own/memory.max": "536870912\n"}, Options{}, 512*mb - 512*mb/20, "/pod/own", nil, "", 0},
		{"that of a group above, less the reserve", map[string]string{"sys/fs/cgroup/pod/own/memory.max": "1073741824\n", "sys/fs/cgroup/pod/memory.max": "536870912\n"}, Options{Reserve: 12 * mb}, 500 * mb, "/pod", nil, "", 0},
		{"memory.high is a limit too", map[string]string{"sys/fs/cgroup/pod/own/memory.max": "1073741824\n", "sys/fs/cgroup/pod/own/memory.high": "536870912\n"}, Options{}, 512*mb - 512*mb/20, "/pod/own", nil, "", 0},
		{"version 1", v1, Options{}, 512*mb - 512*mb/20, "/pod/own", nil, "", 0},
		{"none", nil, Options{}, 0, "", ErrNoBudget, `neither the control group "/pod/own" nor one above it that can be seen has a memory limit: set Options.Budget`, 0},
		{"none that can be seen", map[string]string{"proc/self/cgroup": "0::/../other\n"}, Options{}, 0, "", ErrNoBudget, "outside of this cgroup namespace: set Options.Budget", 0},
		{"shared", shared, Options{}, 0, "", ErrShared, `process 77 counts against the 512 MiB of "/pod": set Options.Budget to the bytes that this process may use, or Options.Reserve`, 0},
		{"shared, with a reserve for the others", shared, Options{Reserve: 112 * mb}, 400 * mb, "/pod", nil, "", 0},
		{"too little is left", map[string]string{"sys/fs/cgroup/pod/own/memory.max": "536870912\n"}, Options{Reserve: 500 * mb}, 0, "", ErrNoBudget, `the limit of "/pod/own" less Options.Reserve is 12 MiB`, 0},
		{"the ceiling is below it", map[string]string{"sys/fs/cgroup/pod/own/memory.max": "536870912\n"}, Options{Ceiling: 100 * mb}, 0, "", nil, `Ceiling is 100 MiB: it has to be 486.4 MiB, the budget by /pod/own, at least`, 0},
		{"a lower GOMEMLIMIT remains as it is", map[string]string{"sys/fs/cgroup/pod/own/memory.max": "536870912\n"}, Options{}, 320 * mb, "GOMEMLIMIT", nil, "", 300 * mb},
		{"a higher one does not count", map[string]string{"sys/fs/cgroup/pod/own/memory.max": "536870912\n"}, Options{}, 512*mb - 512*mb/20, "/pod/own", nil, "", 600 * mb},
		{"GOMEMLIMIT alone", nil, Options{}, 320 * mb, "GOMEMLIMIT", nil, "", 300 * mb},
		{"GOMEMLIMIT, and others share the group", shared, Options{}, 320 * mb, "GOMEMLIMIT", nil, "", 300 * mb},
		{"GOMEMLIMIT too low", nil, Options{}, 0, "", ErrNoBudget, "set Options.Budget", 10 * mb},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := budgetOf(c.o, cmp.Or(c.set, math.MaxInt64), groups.Tree{FS: tree(c.files)})
			if c.say != "" {
				if err == nil || c.err != nil && !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.say) {
					t.Fatalf("%v", err)
				}
				return
			}
			// Where a group has a limit the kernel kills who exceeds it, whoever else is in it. With Options.Budget the user answers for that.
			enforced := c.files != nil && c.o.Budget == 0
			if err != nil || b.bytes != c.bytes || b.source != c.source || b.enforced != enforced {
				t.Fatalf("%+v, %v", b, err)
			}
		})
	}
}

func TestHowFarTheLimitIsLetGoOf(t *testing.T) {
	none := int64(math.MaxInt64)
	own, group := budget{bytes: 256 * mb}, budget{bytes: 256 * mb, enforced: true}
	for _, c := range []struct {
		name   string
		o      Options
		b      budget
		before settings
		raised int64
		most   int
	}{
		{"no further than without a tuner", Options{}, own, settings{100, none}, none, 100},
		{"GOGC that was high", Options{}, own, settings{2000, none}, none, ceiling},
		{"GOGC that was low", Options{}, own, settings{10, none}, none, floor},
		{"GOGC that was off", Options{}, own, settings{-1, none}, none, usual},
		{"the kernel kills: as little as can be", Options{}, group, settings{100, none}, none, floor},
		{"a limit that was set above the budget", Options{}, own, settings{100, 300 * mb}, 300 * mb, 100},
		{"and one below it", Options{}, group, settings{100, 200 * mb}, none, floor},
		{"the ceiling", Options{Ceiling: 400 * mb}, group, settings{100, none}, limit(400 * mb), ceiling},
	} {
		if raised, most := c.o.lead(c.b, c.before); raised != c.raised || most != c.most {
			t.Errorf("%s: %d, GOGC %d", c.name, raised, most)
		}
	}
}

func TestTheBudgetFollowsTheLimitAndIsKeptWithoutOne(t *testing.T) {
	root := tree(map[string]string{"sys/fs/cgroup/pod/own/memory.max": "536870912\n"})
	b, err := budgetOf(Options{Reserve: 12 * mb}, math.MaxInt64, groups.Tree{FS: root})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		want int64
	}{{"1073741824\n", 1012 * mb}, {"max\n", 1012 * mb}, {"nonsense", 1012 * mb}, {"1048576\n", smallest}} {
		root["sys/fs/cgroup/pod/own/memory.max"].Data = []byte(c.text)
		if b.again(); b.bytes != c.want {
			t.Errorf("%q: %d", c.text, b.bytes)
		}
	}
}

func TestOptionsThatMakeNoSenseAreErrors(t *testing.T) {
	for _, o := range []Options{
		{Budget: -1}, {Budget: 1 << 20}, {Budget: 100 * mb, Reserve: 90 * mb}, {Reserve: -1}, {Budget: 100 * mb, Ceiling: 50 * mb},
		{Ceiling: 1}, {Budget: 100 * mb, GCShare: 0.5}, {Budget: 100 * mb, GCShare: -0.1}, {Budget: 100 * mb, AssistShare: 1},
	} {
		if tuner, err := New(o); err == nil {
			tuner.Stop()
			t.Errorf("%+v is none", o)
		}
	}
}
