module github.com/whylate/whylate/incidents

go 1.25.0

require github.com/whylate/whylate v0.0.0

replace github.com/whylate/whylate => ../
