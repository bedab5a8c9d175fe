// Counts a hold down by the time that the server said is left, whatever this machine's clock says, and asks again when it is over.
const clock = document.querySelector("[data-seconds]");
const status = document.querySelector("[data-last-minute]");

if (clock) {
  const end = Date.now() + 1000 * Number(clock.dataset.seconds);
  const show = () => {
    const left = Math.max(0, Math.ceil((end - Date.now()) / 1000));
    clock.textContent = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
    if (left <= 60 && status && !status.textContent) {
      status.textContent = status.dataset.lastMinute;
      clock.classList.add("last");
    }
    if (left === 0) {
      clearInterval(ticking);
      location.replace(location.href);
    }
  };
  const ticking = setInterval(show, 500);
  show();
}
