package known

import (
	"reflect"
	"strconv"
	"time"
)

// The codes of the protocols of devices.

// coap classifies a code of CoAP: the first digit of a status in three bits, and the rest in five.
//
// https://www.rfc-editor.org/rfc/rfc7252#section-5.9, https://www.rfc-editor.org/rfc/rfc7959#section-2.9.2
func coap(code int64) Fact {
	const class, detail, incomplete, lowest, highest = 5, 1<<5 - 1, 408, 400, 599
	status := int(code>>class*100 + code&detail)
	if status < lowest || status > highest {
		return Fact{}
	}
	f := Status(status, false)
	if status == incomplete { // the blocks of a body, and not a timeout
		f = Transient("")
	}
	f.Category = "coap_" + strconv.Itoa(status)
	return f
}

// modbusException classifies an exception code of Modbus. A failure of the device (4) may be any.
//
// https://www.modbus.org/file/secure/modbusprotocolspecification.pdf, section 7
func modbusException(code int64) Fact {
	switch category := "modbus_" + strconv.FormatInt(code, 10); code {
	case 1, 2, 3: // an illegal function, address or value
		return Permanent(category)
	case 6: // busy
		return Rejected(category)
	case 5, 8, 10, 11: // acknowledged, memory, a gateway without a path or an answer
		return Transient(category)
	default:
		return Fact{}
	}
}

// modbusText classifies the Error of simonvetter/modbus, which is a constant text for each code.
func modbusText(v reflect.Value, _ string) (f Fact, _ int, _ time.Duration) {
	switch text(v) {
	case "illegal function":
		f = modbusException(1)
	case "illegal data address":
		f = modbusException(2)
	case "illegal data value":
		f = modbusException(3)
	case "server device busy":
		f = modbusException(6)
	case "configuration error", "unexpected parameters":
		f = Permanent("invalid")
	}
	return f, 0, 0
}

// mqttReason classifies why a broker of MQTT 5 has refused a connection.
//
// https://docs.oasis-open.org/mqtt/mqtt/v5.0/os/mqtt-v5.0-os.html#_Toc3901079
func mqttReason(code int64) Fact {
	switch category := "mqtt_" + strconv.FormatInt(code, 16); code {
	case 0x80, 0x83, 0x88: // unspecified, of the implementation, unavailable
		return Transient(category)
	case 0x89, 0x97, 0x9f: // busy, quota, connection rate
		return Rejected(category)
	case 0x81, 0x82, 0x84, 0x85, 0x86, 0x87, 0x8a, 0x8c, 0x90, 0x95, 0x99, 0x9a, 0x9b, 0x9c, 0x9d:
		return Permanent(category)
	default:
		return Fact{}
	}
}
