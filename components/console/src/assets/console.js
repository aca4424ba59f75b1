// Comfort only: every page works without this script.

// Copy buttons.
for (const line of document.querySelectorAll("[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(line.querySelector("code").textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select";
      getSelection().selectAllChildren(line.querySelector("code"));
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  line.append(button);
}

// Times in the visitor's zone; the title keeps UTC.
const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const showLocalTimes = (root) => {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (!Number.isNaN(moment.getTime())) time.textContent = zone.format(moment);
  }
};
showLocalTimes(document);

// Search as you type: the results of the same page, as the server makes it.
for (const form of document.querySelectorAll("form[data-live]")) {
  let timer;
  let latest = 0;
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const mine = ++latest;
      const address = new URL(form.action);
      address.search = new URLSearchParams(new FormData(form)).toString();
      const response = await fetch(address, { credentials: "same-origin" }).catch(() => null);
      if (mine !== latest || !response || !response.ok) return;
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const [from, to] = [page.getElementById("results"), document.getElementById("results")];
      if (!from || !to) return;
      to.replaceWith(document.adoptNode(from));
      showLocalTimes(from);
      history.replaceState(null, "", address);
    }, 200);
  });
}

// Confirmation of actions that cannot be undone.
for (const form of document.querySelectorAll("form[data-confirm]")) {
  form.addEventListener("submit", (event) => {
    if (!confirm(form.dataset.confirm)) event.preventDefault();
  });
}
