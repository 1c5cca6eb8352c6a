module cerne

go 1.19
