// Shows the page anew every 5 seconds, unless somebody is reading or writing in it. A button
// stops that.
const state = document.getElementById("state")
const button = document.createElement("button")
let on = true
const shown = () => { button.textContent = on ? "Live: stop" : "Go live" }
button.addEventListener("click", () => { on = !on; shown() })
shown()
state.after(button)

setInterval(async () => {
	const live = document.getElementById("live")
	if (!on || document.hidden || live.contains(document.activeElement) || !getSelection().isCollapsed) return
	try {
		const answer = await fetch(location.href)
		const page = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("live")
		const open = [...live.querySelectorAll("details")].map((one) => one.open)
		page.querySelectorAll("details").forEach((one, i) => { one.open = open[i] ?? one.open })
		const left = [...live.querySelectorAll(".wide")].map((one) => one.scrollLeft)
		if (!live.contains(document.activeElement)) live.replaceWith(page)
		page.querySelectorAll(".wide").forEach((one, i) => { one.scrollLeft = left[i] ?? 0 })
		state.textContent = ""
	} catch {
		state.textContent = "The server does not answer."
	}
}, 5000)
