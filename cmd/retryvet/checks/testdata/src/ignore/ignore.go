package ignore

func f() {
	//retryvet:ignore // want `say why`
	_ = 1
	//retryvet:ignore for a reason
	_ = 2
}
