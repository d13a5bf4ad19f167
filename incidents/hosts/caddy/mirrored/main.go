// Command mirrored is the unmodified Caddy with a mirror of its own beside it in
// the same process, as a site that embeds Caddy might have.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

func main() {
	for shard := range shards {
		go newMirror(shard).verify()
	}
	caddycmd.Main()
}
