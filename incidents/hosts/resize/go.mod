module github.com/whylate/whylate/incidents/hosts/resize

go 1.25.0
