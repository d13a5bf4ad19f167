module programs

go 1.22
