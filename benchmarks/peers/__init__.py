"""Other libraries' methods, where it takes more than a call to use them well."""
