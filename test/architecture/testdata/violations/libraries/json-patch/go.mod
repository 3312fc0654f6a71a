module github.com/evanphx/json-patch/v5

go 1.26.0
