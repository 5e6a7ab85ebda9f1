"""Models of this package, written for CTranslate2."""
