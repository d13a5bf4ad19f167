package doctor

// row returns a row by its id; nil if there is none.
func row(rows []Row, id string) *Row {
	for i := range rows {
		if rows[i].ID == id {
			return &rows[i]
		}
	}
	return nil
}
