// Counts a hold down by the time that the server said is left, whatever this machine's clock says, and opens the page that says so when
// it is over.
const clock = document.querySelector("[data-seconds]");
const status = document.querySelector("[data-last-minute]");

if (clock) {
  const answered = performance.getEntriesByType("navigation")[0]?.responseStart ?? performance.now();
  const answeredByDate = Date.now() - (performance.now() - answered);
  // One stands still while the machine sleeps, the other jumps when its clock is set: the larger is right in both cases.
  const passed = () => Math.max(performance.now() - answered, Date.now() - answeredByDate);

  const show = () => {
    const left = Math.max(0, Math.ceil(Number(clock.dataset.seconds) - passed() / 1000));
    clock.textContent = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
    if (left < 60 && status && !status.textContent) {
      status.textContent = status.dataset.lastMinute;
      clock.classList.add("last");
    }
    if (left === 0) {
      clearInterval(ticking);
      location.replace(clock.dataset.then);
    }
  };
  const ticking = setInterval(show, 250);
  show();
  // In a tab that nobody sees it ticks rarely.
  document.addEventListener("visibilitychange", show);
  // A form that was sent in time is not overtaken by the page that says that time ran out.
  document.addEventListener("submit", () => {
    clearInterval(ticking);
    document.removeEventListener("visibilitychange", show);
  });
  // Back may bring this page as it was left, its clock stopped.
  addEventListener("pageshow", event => event.persisted && location.replace(clock.dataset.then));
}
