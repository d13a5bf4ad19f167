// Command godis is the main function of godis, with net/http/pprof beside it.
package main

import (
	"fmt"
	"net/http"
	_ "net/http/pprof"
	"os"
	"path/filepath"

	"github.com/hdt3213/godis/config"
	"github.com/hdt3213/godis/lib/logger"
	RedisServer "github.com/hdt3213/godis/redis/server"
	"github.com/hdt3213/godis/tcp"
)

// main expects the path of redis.conf in CONFIG, as godis does, and the address of
// /debug/pprof in ADMIN. Its files go to the current folder, which is that of
// redis.conf. The banner is left out.
func main() {
	if err := os.Chdir(filepath.Dir(os.Getenv("CONFIG"))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() {
		fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Getenv("ADMIN"), nil))
		os.Exit(1)
	}()
	logger.Setup(&logger.Settings{
		Path:       "logs",
		Name:       "godis",
		Ext:        "log",
		TimeFormat: "2006-01-02",
	})
	config.SetupConfig(os.Getenv("CONFIG"))
	err := tcp.ListenAndServeWithSignal(&tcp.Config{
		Address: fmt.Sprintf("%s:%d", config.Properties.Bind, config.Properties.Port),
	}, RedisServer.MakeHandler())
	if err != nil {
		logger.Error(err)
	}
}
