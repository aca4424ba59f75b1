// What @gitbeaker/rest sees of the namespaces, as one JSON object.
// usage: namespaces.mjs LIBRARIES URL TOKEN
import { createRequire } from "node:module";

const [libraries, host, token] = process.argv.slice(2);
const { Gitlab } = createRequire(`${libraries}/`)("@gitbeaker/rest");

const api = new Gitlab({ host, token });
const first = await api.Namespaces.all({ perPage: 7, maxPages: 1, showExpanded: true, pagination: "offset" });
const seen = {
  total: first.paginationInfo.total,
  pages: first.paginationInfo.totalPages,
  all: (await api.Namespaces.all({ perPage: 7 })).map((namespace) => namespace.id),
  found: (await api.Namespaces.all({ search: "acme/t", fullPathSearch: true, perPage: 4 })).map((n) => n.full_path),
  one: await api.Namespaces.show("acme/labs"),
  taken: await api.Namespaces.exists("acme"),
  free: (await api.Namespaces.exists("labs")).exists,
  below: (await api.Namespaces.exists("labs", { parentId: 10 })).suggests,
};
try {
  await api.Namespaces.show("nobody");
} catch (error) {
  seen.missing = [error.cause.response.status, error.cause.description];
}
console.log(JSON.stringify(seen));
