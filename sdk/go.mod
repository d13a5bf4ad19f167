module github.com/whylate/whylate/sdk

go 1.22
