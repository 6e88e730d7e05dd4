module tips

go 1.26
