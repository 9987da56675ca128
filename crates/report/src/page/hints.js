// Shows the titles of marks at once and beside the pointer. Without it the browser shows them after a while.
const hint = document.getElementById("hint");
for (const title of document.querySelectorAll("svg title")) {
  title.parentNode.dataset.hint = title.textContent;
  title.remove();
}
document.addEventListener("pointermove", (event) => {
  const text = event.target.dataset && event.target.dataset.hint;
  hint.style.display = text ? "block" : "none";
  if (!text) return;
  hint.textContent = text;
  const left = Math.min(event.clientX + 14, innerWidth - hint.offsetWidth - 8);
  const above = event.clientY + 18 + hint.offsetHeight > innerHeight;
  hint.style.left = left + "px";
  hint.style.top = (above ? event.clientY - hint.offsetHeight - 12 : event.clientY + 18) + "px";
});
