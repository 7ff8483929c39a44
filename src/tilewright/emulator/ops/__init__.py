"""What each PTX instruction does, one family a file; `tilewright.emulator.dispatch` picks."""
