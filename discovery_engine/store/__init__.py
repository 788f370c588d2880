"""The catalog, decisions and vectors that are kept between runs; `backends` opens a registry."""
