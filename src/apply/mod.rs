//! Apply and undo: the one executor, the journal, the one undo.
